/* The names of batch modes. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "item/apply.h"

const char *batch_mode_name(enum batch_mode m)
{
	switch (m) {
	case BATCH_UPSERT:
		return "upsert";
	case BATCH_REFRESH:
		return "full-refresh";
	case BATCH_BULK:
		return "bulk";
	case BATCH_RELEASE:
		return "release";
	case BATCH_DISCARD:
		return "discard";
	case BATCH_UNDO:
		return "undo-refresh";
	}
	bug("batch mode %d", (int)m);
}
