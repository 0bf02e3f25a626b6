/* Items of a job: a chunk is one transaction through the item core. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "item/decode.h"
#include "job/chunks.h"
#include "work_private.h"

static bool read_chunk(struct run *r, const struct job *j, struct decoded *d,
		       struct fail *f)
{
	struct chunk c;

	if (!chunk_read(r->db, j->job_id, j->next_chunk, r->arena, &c, f))
		return false;
	return decode_lines(r->arena, r->conf, (enum collection)j->collection,
			    &(struct decode_lines){.text = c.ndjson,
						   .first_index = c.first_index,
						   .count = c.items,
						   .lines = c.lines,
						   .oversized = c.oversized},
			    d, f);
}

static enum apply_result apply_chunk(struct db *db, struct work_part *p,
				     struct apply *a, struct fail *f)
{
	const struct decoded *d = p->arg;

	a->items = d->items;
	a->count = d->count;
	return apply_run(db, a, f);
}

/* A chunk that would pass the quota waits for the next day; one that no day
 * has room for would wait for ever. */
static enum run_step not_done(struct run *r, const struct work_part *p,
			      const struct fail *f)
{
	if (f->code != FAIL_QUOTA_EXHAUSTED)
		return RUN_FAULT;
	if (p->quota.never)
		return RUN_REFUSED;
	r->wait_ms = p->quota.state.reset_s * 1000;
	r->waiting_for = "quota";
	return RUN_WAIT;
}

enum run_step work_chunk(struct run *r, struct job *j, enum batch_mode mode,
			 struct fail *f)
{
	struct decoded d = {.count = 0};
	struct work_part p = {.r = r,
			      .j = j,
			      .work = apply_chunk,
			      .arg = &d,
			      .mode = mode,
			      .chunks = 1,
			      .charges = j->has_quota,
			      .quota = {.partner_id = j->partner_id,
					.limit = j->quota_items}};

	if (!read_chunk(r, j, &d, f))
		return RUN_FAULT;
	p.charge_most = decoded_usable(&d);
	return work_part(&p, f) ? RUN_MORE : not_done(r, &p, f);
}

enum run_step work_items(struct run *r, struct job *j, struct fail *f)
{
	if (j->next_chunk >= j->chunk_count)
		return RUN_END;
	return work_chunk(r, j, (enum batch_mode)j->mode, f);
}
