// SPDX-License-Identifier: GPL-2.0-only
/*
 * A module that misbehaves on request, for the test of the harness. Writing a word to debugfs "superpmap/do" picks
 * the misbehaviour; "verify" and "gauges" have the form of the real module's files.
 */
#include <linux/debugfs.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

static char *regions = "none";
module_param(regions, charp, 0444);
MODULE_PARM_DESC(regions, "any text; tests read it back");

static struct dentry *dir;
static int gauge;
static int differences;
static DEFINE_MUTEX(first);
static DEFINE_MUTEX(second);

static int verify_show(struct seq_file *m, void *v)
{
	seq_printf(m, "differences: %d\n", differences);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(verify);

static int gauges_show(struct seq_file *m, void *v)
{
	seq_printf(m, "things: %d\n", gauge);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(gauges);

static void take_in_both_orders(void)
{
	mutex_lock(&first);
	mutex_lock(&second);
	mutex_unlock(&second);
	mutex_unlock(&first);
	mutex_lock(&second);
	mutex_lock(&first);
	mutex_unlock(&first);
	mutex_unlock(&second);
}

/* Several objects: a stale copy of a pointer somewhere can hide one. */
static void lose_memory(void)
{
	int i;

	for (i = 0; i < 16; i++)
		memset(kmalloc(200, GFP_KERNEL), 1, 200);
}

static int racer(void *word)
{
	while (!kthread_should_stop()) {
		++*(int *)word;
		cond_resched();
	}
	return 0;
}

/* Two threads change one word without a lock, for a second. */
static void race(void)
{
	static int word;
	struct task_struct *task = kthread_run(racer, &word, "racer");
	unsigned long end = jiffies + HZ;

	if (IS_ERR(task))
		return;
	while (time_before(jiffies, end)) {
		word++;
		cond_resched();
	}
	kthread_stop(task);
}

static ssize_t do_write(struct file *file, const char __user *buf, size_t len, loff_t *pos)
{
	char word[16] = "";

	if (copy_from_user(word, buf, min(len, sizeof(word) - 1)))
		return -EFAULT;
	if (sysfs_streq(word, "oops"))
		*(volatile int *)8 = 1;
	else if (sysfs_streq(word, "warn"))
		WARN_ON(1);
	else if (sysfs_streq(word, "gauge"))
		gauge++;
	else if (sysfs_streq(word, "differ"))
		differences++;
	else if (sysfs_streq(word, "pin"))
		__module_get(THIS_MODULE);
	else if (sysfs_streq(word, "leak"))
		lose_memory();
	else if (sysfs_streq(word, "race"))
		race();
	else if (sysfs_streq(word, "deadlock"))
		take_in_both_orders();
	else
		return -EINVAL;
	return len;
}

static const struct file_operations do_fops = {
	.owner = THIS_MODULE,
	.write = do_write,
};

static int __init dummy_init(void)
{
	dir = debugfs_create_dir("superpmap", NULL);
	debugfs_create_file("verify", 0400, dir, NULL, &verify_fops);
	debugfs_create_file("gauges", 0400, dir, NULL, &gauges_fops);
	debugfs_create_file("do", 0200, dir, NULL, &do_fops);
	return 0;
}
module_init(dummy_init);

static void __exit dummy_exit(void)
{
	debugfs_remove(dir);
}
module_exit(dummy_exit);

MODULE_DESCRIPTION("Stands in for superpmap in the test of the harness");
MODULE_LICENSE("GPL");
