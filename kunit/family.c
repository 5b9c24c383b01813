// SPDX-License-Identifier: GPL-2.0
/*
 * A family of objects without processes.
 */
#include <kunit/static_stub.h>
#include <linux/highmem.h>
#include <linux/mm.h>

#include "family.h"

const unsigned int spm_test_pages[SPM_TEST_PAGES] = {
	0, 1, 2, 255, 256, 300, 510, 511,
};

/* A page that is never stored to: zeros, wherever it comes from. */
#define UNTOUCHED 100

static struct spm_test_image *new_image(struct kunit *test)
{
	struct spm_test_family *f = test->priv;
	unsigned int i;

	for (i = 0; i < SPM_TEST_IMAGES; i++)
		if (!f->images[i].obj) {
			memset(&f->images[i], 0, sizeof(f->images[i]));
			return &f->images[i];
		}
	KUNIT_FAIL_AND_ABORT(test, "more than %d objects", SPM_TEST_IMAGES);
	return NULL;
}

/* One that nothing refers to any more may be taken again. */
static struct spm_test_base *new_base(struct kunit *test)
{
	struct spm_test_family *f = test->priv;
	unsigned int i;

	for (i = 0; i < SPM_TEST_BASES; i++) {
		struct spm_test_base *base = &f->bases[i];

		if (base->counters && refcount_read(&base->counters->ref) == 1)
			spm_test_base_exit(test, base);
		if (base->counters)
			continue;
		spm_test_base_init(test, base, 100 + i);
		return base;
	}
	KUNIT_FAIL_AND_ABORT(test, "more than %d regions", SPM_TEST_BASES);
	return NULL;
}

/**
 * spm_test_family_init() - a family of one region without pages
 * @test: the case
 */
int spm_test_family_init(struct kunit *test)
{
	struct spm_test_family *f = kunit_kzalloc(test, sizeof(*f), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, f);
	test->priv = f;
	spm_test_family_again(test);
	return 0;
}

/**
 * spm_test_family_exit() - put what is left; nothing may remain
 * @test: the case
 */
void spm_test_family_exit(struct kunit *test)
{
	struct spm_test_family *f = test->priv;
	unsigned int i;

	if (!f)
		return;
	for (i = 0; i < SPM_TEST_IMAGES; i++)
		spm_test_put(&f->images[i]);
	for (i = 0; i < SPM_TEST_BASES; i++)
		spm_test_base_exit(test, &f->bases[i]);
}

/**
 * spm_test_family_again() - another family, from the beginning
 * @test: the case
 */
void spm_test_family_again(struct kunit *test)
{
	struct spm_test_family *f = test->priv;
	struct spm_test_image *img;

	spm_test_family_exit(test);
	memset(f->images, 0, sizeof(f->images));
	f->unmerged = false;
	img = new_image(test);
	img->base = new_base(test);
	img->obj = spm_test_base_object(img->base, NULL, NULL);
	KUNIT_ASSERT_NOT_NULL(test, img->obj);
}

/**
 * spm_test_family_region() - the region that all began with
 * @test: the case
 */
struct spm_test_image *spm_test_family_region(struct kunit *test)
{
	struct spm_test_family *f = test->priv;

	return &f->images[0];
}

/* Private objects only store their mm, so no process is needed. */
static const struct mm_struct *some_mm(void)
{
	return (const struct mm_struct *)&spm_test_pages;
}

/**
 * spm_test_snapshot() - a region that shows what another shows now
 * @test:	the case
 * @of:		the other, a region
 * @err:	set to what spm_cow_shadow() said
 *
 * Return: the image, or NULL if that was an error.
 */
struct spm_test_image *spm_test_snapshot(struct kunit *test,
					 struct spm_test_image *of, int *err)
{
	struct spm_test_base *base = new_base(test);
	struct spm_test_image *img = new_image(test);
	struct spm_object *obj;

	obj = spm_test_base_object(base, of->obj->family, NULL);
	KUNIT_ASSERT_NOT_NULL(test, obj);
	*err = spm_cow_shadow(of->obj, obj, SPM_FREEZE_SNAPSHOT);
	if (*err) {
		spm_object_put(obj);
		return NULL;
	}
	img->obj = obj;
	img->base = base;
	memcpy(img->value, of->value, sizeof(img->value));
	return img;
}

/**
 * spm_test_private() - a new private mapping of a region
 * @test:	the case
 * @of:		the region
 */
struct spm_test_image *spm_test_private(struct kunit *test,
					struct spm_test_image *of)
{
	struct spm_test_image *img = new_image(test);

	img->base = of->base;
	img->region = of;
	img->obj = spm_test_base_object(of->base, of->obj->family, some_mm());
	KUNIT_ASSERT_NOT_NULL(test, img->obj);
	spm_cow_map_private(of->obj, img->obj);
	return img;
}

/**
 * spm_test_fork() - the child's copy of a private mapping
 * @test:	the case
 * @of:		the parent's
 * @err:	set to what spm_cow_shadow() said
 *
 * Return: the image, or NULL if that was an error.
 */
struct spm_test_image *spm_test_fork(struct kunit *test,
				     struct spm_test_image *of, int *err)
{
	struct spm_test_image *img = new_image(test);
	struct spm_object *obj;

	obj = spm_test_base_object(of->base, of->obj->family, some_mm());
	KUNIT_ASSERT_NOT_NULL(test, obj);
	*err = spm_cow_shadow(of->obj, obj, SPM_FREEZE_FORK);
	if (*err) {
		spm_object_put(obj);
		return NULL;
	}
	*img = *of;
	img->obj = obj;
	return img;
}

/**
 * spm_test_put() - a live object goes
 * @img: image, whose region must outlive private mappings
 */
void spm_test_put(struct spm_test_image *img)
{
	struct spm_object *obj = img->obj;

	img->obj = NULL;
	if (obj)
		spm_object_put(obj);
}

/**
 * spm_test_page_value() - the value that a page holds
 * @page: page
 *
 * Return: the value, or ~0 if its end says something else than its beginning.
 */
u32 spm_test_page_value(struct page *page)
{
	u32 *p = kmap_local_page(page);
	u32 value = p[0] == p[PAGE_SIZE / sizeof(*p) - 1] ? p[0] : ~0;

	kunmap_local(p);
	return value;
}

/**
 * spm_test_page_set() - let a page hold a value
 * @page:	page
 * @value:	value
 */
void spm_test_page_set(struct page *page, u32 value)
{
	u32 *p = kmap_local_page(page);

	p[0] = value;
	p[PAGE_SIZE / sizeof(*p) - 1] = value;
	kunmap_local(p);
}

/* What a store fault does, down to the page. */
static int own_page(struct spm_object *obj, struct spm_slot *slot,
		    unsigned int i)
{
	struct spm_reserv *rv = spm_object_page(obj, slot->index, i);
	const struct spm_place pl = { .slot = slot->index };
	int err;

	if (rv && rv == slot->reserv)
		return 0;
	if (rv)
		return spm_cow_page(obj, slot, rv, i, &pl);
	err = spm_slot_reserve(obj, slot, NULL, 0);
	if (err)
		return err;
	err = spm_reserv_populate(slot->reserv, i, NULL, 0, SPM_POPULATE_FAULT);
	spm_slot_depopulate(slot, 0, 0);
	return err;
}

/**
 * spm_test_store_page() - store to any page, as a fault would
 * @obj:	live object
 * @index:	slot
 * @i:		page
 * @value:	value
 *
 * Context: any thread.
 * Return: 0 or a negative errno.
 */
int spm_test_store_page(struct spm_object *obj, pgoff_t index, unsigned int i,
			u32 value)
{
	struct spm_slot *slot = spm_object_slot(obj, index, 0);
	int err;

	if (!slot)
		return -ENOMEM;
	err = spm_slot_lock_write(obj, slot);
	if (err)
		return err;
	err = own_page(obj, slot, i);
	if (!err) {
		spm_reserv_set_dirty(slot->reserv, i);
		spm_test_page_set(spm_reserv_page(slot->reserv, i), value);
	}
	mutex_unlock(slot->lock);
	return err;
}

/**
 * spm_test_set() - store a new value, as a fault would
 * @test:	the case
 * @img:	image
 * @s:		slot
 * @k:		which of the pages in play
 *
 * Return: 0 or -ENOMEM with nothing stored.
 */
int spm_test_set(struct kunit *test, struct spm_test_image *img,
		 unsigned int s, unsigned int k)
{
	struct spm_test_family *f = test->priv;
	int err = spm_test_store_page(img->obj, s, spm_test_pages[k], f->next + 1);

	if (err)
		return err;
	img->own[s][k] = true;
	img->value[s][k] = ++f->next;
	return 0;
}

/**
 * spm_test_touch() - load a page, as a fault would: zeros may be populated
 * @img:	image
 * @s:		slot
 * @k:		which of the pages in play
 *
 * Return: 0 or -ENOMEM.
 */
int spm_test_touch(struct spm_test_image *img, unsigned int s, unsigned int k)
{
	struct spm_slot *slot = spm_object_slot(img->obj, s, 0);
	unsigned int i = spm_test_pages[k];
	struct spm_object *home;
	int err = 0;

	if (!slot)
		return -ENOMEM;
	mutex_lock(slot->lock);
	if (!spm_object_page(img->obj, s, i)) {
		home = spm_object_home(img->obj, s, i);
		slot = spm_object_slot(home, s, 0);
		err = slot ? own_page(home, slot, i) : -ENOMEM;
	}
	mutex_unlock(spm_object_find_lock(img->obj, s));
	return err;
}

/**
 * spm_test_fill() - an object gets every page of a slot, values unchanged
 * @img:	image
 * @s:		slot
 *
 * Return: 0 or -ENOMEM with some pages copied.
 */
int spm_test_fill(struct spm_test_image *img, unsigned int s)
{
	struct spm_slot *slot = spm_object_slot(img->obj, s, 0);
	unsigned int i, k;
	int err;

	if (!slot)
		return -ENOMEM;
	err = spm_slot_lock_write(img->obj, slot);
	if (err)
		return err;
	for (i = 0; i < SPM_SLOT_PAGES && !err; i++) {
		err = own_page(img->obj, slot, i);
		if (!err)
			spm_reserv_set_dirty(slot->reserv, i);
	}
	mutex_unlock(slot->lock);
	for (k = 0; k < SPM_TEST_PAGES && !err; k++) {
		img->value[s][k] = spm_test_want(img, s, k);
		img->own[s][k] = true;
	}
	return err;
}

static void model_zero(struct spm_test_image *img, pgoff_t first, pgoff_t end)
{
	unsigned int s, k;

	for (s = 0; s < SPM_TEST_SLOTS; s++)
		for (k = 0; k < SPM_TEST_PAGES; k++) {
			pgoff_t n = s * SPM_SLOT_PAGES + spm_test_pages[k];

			if (n < first || n >= end)
				continue;
			img->own[s][k] = true;
			img->value[s][k] = 0;
		}
}

/**
 * spm_test_discard() - SPM_ADV_DISCARD
 * @img:	image
 * @first:	first page
 * @end:	one past the last
 *
 * Return: 0 or a negative errno.
 */
int spm_test_discard(struct spm_test_image *img, pgoff_t first, pgoff_t end)
{
	int err = spm_cow_discard(img->obj, first, end, NULL, NULL);

	if (!err)
		model_zero(img, first, end);
	return err;
}

/**
 * spm_test_truncate() - cut a region off, and its private mappings
 * @test:	the case
 * @img:	the region
 * @end:	pages that stay
 */
void spm_test_truncate(struct kunit *test, struct spm_test_image *img,
		       pgoff_t end)
{
	struct spm_test_family *f = test->priv;
	unsigned int i;

	spm_cow_truncate(img->obj, end);
	for (i = 0; i < SPM_TEST_IMAGES; i++)
		if (f->images[i].obj &&
		    (&f->images[i] == img || f->images[i].region == img))
			model_zero(&f->images[i], end, ULONG_MAX);
}

/**
 * spm_test_want() - what a page must hold, by the model
 * @img:	image
 * @s:		slot
 * @k:		which of the pages in play
 */
u32 spm_test_want(const struct spm_test_image *img, unsigned int s,
		  unsigned int k)
{
	if (img->region && !img->own[s][k])
		img = img->region;
	return img->value[s][k];
}

/**
 * spm_test_reserv() - what an object itself has in a slot
 * @obj:	object that nobody changes now
 * @index:	slot
 *
 * Return: the reservation, or NULL.
 */
struct spm_reserv *spm_test_reserv(struct spm_object *obj, pgoff_t index)
{
	struct spm_slot *slot = spm_object_find_slot(obj, index);

	return slot ? slot->reserv : NULL;
}

/**
 * spm_test_pin() - what pin_user_pages() does to one page
 * @rv: reservation with a page
 *
 * Return: the page, for unpin_user_page().
 */
struct page *spm_test_pin(struct spm_reserv *rv)
{
	unsigned int i = find_first_bit(rv->popmap, SPM_SLOT_PAGES);
	struct folio *folio = page_folio(spm_reserv_page(rv, i));

	if (folio_test_large(folio)) {
		folio_ref_inc(folio);
		atomic_inc(&folio->_pincount);
	} else {
		folio_ref_add(folio, GUP_PIN_COUNTING_BIAS);
	}
	return spm_reserv_page(rv, i);
}

/**
 * spm_test_depth() - length of the chain under an object
 * @obj: object
 */
unsigned int spm_test_depth(struct spm_object *obj)
{
	unsigned int n;

	mutex_lock(&obj->family->lock);
	n = spm_object_depth(obj);
	mutex_unlock(&obj->family->lock);
	return n;
}

unsigned int spm_test_folios;

/**
 * spm_test_folios_left() - stub of spm_folio_alloc(): memory runs out
 * @gfp:	as there
 * @order:	as there; blocks fail always
 * @vma:	as there
 * @addr:	as there
 */
struct folio *spm_test_folios_left(gfp_t gfp, int order,
				   struct vm_area_struct *vma,
				   unsigned long addr)
{
	if (order || !spm_test_folios)
		return NULL;
	spm_test_folios--;
	return folio_alloc(gfp, order);
}

/* The books of one region, by counting. */
struct books {
	long pages, dirty, loose, live, empty, full, queued, objects, links;
};

/* A reservation agrees with itself and its owner; NULL, or what is wrong. */
static const char *wrong_reserv(const struct spm_object *obj, pgoff_t index,
				const struct spm_reserv *rv)
{
	bool queued = spm_reserv_queued(rv);
	unsigned int i;

	if (rv->owner != &obj->owner || rv->index != index)
		return "reservation of another object or slot";
	if (spm_reserv_popcnt(rv) != bitmap_weight(rv->popmap, SPM_SLOT_PAGES) ||
	    rv->ndirty != bitmap_weight(rv->dirty, SPM_SLOT_PAGES))
		return "counts and maps differ";
	if (!spm_reserv_popcnt(rv))
		return "empty reservation kept";
	if (!bitmap_subset(rv->dirty, rv->popmap, SPM_SLOT_PAGES))
		return "dirty without page";
	if (queued != (!spm_reserv_loose(rv) && !spm_reserv_full(rv)))
		return "wrongly queued, or not";
	for_each_set_bit(i, rv->popmap, SPM_SLOT_PAGES) {
		struct folio *folio = page_folio(spm_reserv_page(rv, i));
		pgoff_t at = folio_test_large(folio) ? 0 : i;

		if (folio->mapping != obj->owner.mapping ||
		    folio->index != index * SPM_SLOT_PAGES + at)
			return "folio with another identity";
	}
	return NULL;
}

static void count_reserv(struct books *b, const struct spm_reserv *rv)
{
	b->pages += spm_reserv_popcnt(rv);
	b->dirty += rv->ndirty;
	if (spm_reserv_loose(rv)) {
		b->loose += spm_reserv_popcnt(rv);
		return;
	}
	b->live++;
	b->empty += SPM_SLOT_PAGES - spm_reserv_popcnt(rv);
	b->full += spm_reserv_full(rv);
	b->queued += spm_reserv_queued(rv);
}

/* How an object is connected; NULL, or what is wrong. */
static const char *wrong_object(const struct spm_test_family *f,
				const struct spm_object *obj)
{
	struct spm_object *o;
	unsigned int n = 0;

	list_for_each_entry(o, &obj->shadows, shadow_link) {
		if (o->backing != obj)
			return "a shadow with another backing";
		n++;
	}
	if (!obj->users && n < (f->unmerged ? 1 : 2))
		return "a frozen object that should have been merged";
	if (obj->freezing)
		return "still freezing";
	if (obj->backing && obj->backing->family != obj->family)
		return "backing of another family";
	return NULL;
}

static void count_base(struct kunit *test, int line, struct spm_family *family,
		       const struct spm_test_base *base, struct books *b)
{
	struct spm_object *obj;
	struct spm_slot *slot;
	unsigned long index;

	list_for_each_entry(obj, &family->objects, link) {
		const char *wrong = wrong_object(test->priv, obj);

		if (obj->owner.counters != base->counters)
			continue;
		b->objects++;
		b->links += !!obj->backing;
		xa_for_each(&obj->slots, index, slot) {
			if (!wrong && slot->reserv)
				wrong = wrong_reserv(obj, index, slot->reserv);
			if (slot->reserv)
				count_reserv(b, slot->reserv);
		}
		if (wrong)
			KUNIT_FAIL(test, "line %d: region %u: %s", line,
				   base->region, wrong);
	}
}

static void check_base(struct kunit *test, int line, struct spm_family *family,
		       const struct spm_test_base *base)
{
	const struct spm_counters *c = base->counters;
	struct books b = { };

	mutex_lock(&family->lock);
	count_base(test, line, family, base, &b);
	mutex_unlock(&family->lock);
#define EXPECT_BOOK(field, stat)						\
	KUNIT_EXPECT_EQ_MSG(test, spm_stat_read(c, SPM_STAT_##stat), b.field,	\
			    "line %d: region %u: gauge %s", line, base->region,	\
			    #stat)
	EXPECT_BOOK(pages, pages);
	EXPECT_BOOK(dirty, dirty);
	EXPECT_BOOK(loose, loose);
	EXPECT_BOOK(live, reserv_live);
	EXPECT_BOOK(empty, reserv_empty);
	EXPECT_BOOK(full, reserv_fullpop);
	EXPECT_BOOK(queued, reserv_partpopq);
	EXPECT_BOOK(objects, objects);
	EXPECT_BOOK(links, links);
#undef EXPECT_BOOK
}

/**
 * spm_test_shown() - what a page shows
 * @obj:	live object
 * @index:	slot
 * @i:		page
 *
 * Context: any thread.
 * Return: the value, 0 for zeros.
 */
u32 spm_test_shown(struct spm_object *obj, pgoff_t index, unsigned int i)
{
	struct mutex *lock = spm_object_find_lock(obj, index);
	struct spm_reserv *rv;
	u32 value = 0;

	if (!lock)
		return 0;
	mutex_lock(lock);
	rv = spm_object_page(obj, index, i);
	if (rv)
		value = spm_test_page_value(spm_reserv_page(rv, i));
	mutex_unlock(lock);
	return value;
}

static void check_image(struct kunit *test, int line, unsigned int n,
			const struct spm_test_image *img)
{
	unsigned int s, k;

	for (s = 0; s < SPM_TEST_SLOTS; s++) {
		for (k = 0; k < SPM_TEST_PAGES; k++)
			KUNIT_EXPECT_EQ_MSG(test,
					    spm_test_shown(img->obj, s,
							   spm_test_pages[k]),
					    spm_test_want(img, s, k),
					    "line %d: object %u slot %u page %u",
					    line, n, s, spm_test_pages[k]);
		KUNIT_EXPECT_EQ_MSG(test, spm_test_shown(img->obj, s, UNTOUCHED),
				    0, "line %d: object %u slot %u", line, n, s);
	}
}

/**
 * spm_test_family_check() - see EXPECT_FAMILY
 * @test:	the case
 * @line:	of the caller, for messages
 */
void spm_test_family_check(struct kunit *test, int line)
{
	struct spm_test_family *f = test->priv;
	struct spm_family *family = NULL;
	unsigned int i;

	for (i = 0; i < SPM_TEST_IMAGES; i++) {
		if (!f->images[i].obj)
			continue;
		check_image(test, line, i, &f->images[i]);
		family = f->images[i].obj->family;
	}
	for (i = 0; i < SPM_TEST_BASES && family; i++)
		if (f->bases[i].counters)
			check_base(test, line, family, &f->bases[i]);
}
