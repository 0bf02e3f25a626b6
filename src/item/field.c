/* The fields of every collection: the table itself. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "item/field.h"

#include "item/incoming.h"

enum { OPTIONAL, REQUIRED };

/* The rest of a row are members of struct field; `doc` is one always. */
#define FIELD(NAME, KIND, NEED, ...)                                    \
	{                                                               \
		.name = {NAME, sizeof(NAME) - 1}, .kind = FIELD_##KIND, \
		.required = (NEED) == REQUIRED, __VA_ARGS__,            \
	}
#define REFERENCE(NAME, NEED, TO, ...)                                      \
	FIELD(NAME, REFERENCE, NEED, .to = COLLECTION_##TO, .min_bytes = 1, \
	      .max_bytes = ITEM_SOURCE_ID_MAX, __VA_ARGS__)
#define SET(FIELDS)                       \
	{                                 \
		FIELDS, ARRAY_LEN(FIELDS) \
	}

/* What every item has. */
#define COMMON                                                             \
	FIELD("source_id", SOURCE_ID, REQUIRED, .min_bytes = 1,            \
	      .max_bytes = ITEM_SOURCE_ID_MAX,                             \
	      .doc = "The sender's own id of the item, compared byte for " \
		     "byte."),                                             \
		FIELD("source_version", VERSION, OPTIONAL,                 \
		      .doc = "Grows with every change of the item; the "   \
			     "highest one "                                \
			     "wins.")

#define ITEM_NAME                                     \
	FIELD("name", TEXT, REQUIRED, .min_bytes = 1, \
	      .doc = "What people call it.")
#define QTY                                                     \
	FIELD("qty", NUMBER, REQUIRED, .bound = FIELD_POSITIVE, \
	      .doc = "How many or how much, in `uom`.")
#define UOM \
	REFERENCE("uom", REQUIRED, UOMS, .doc = "The unit `qty` is counted in.")

static const struct field UOMS[] = {COMMON, ITEM_NAME};

static const struct field ADDRESSES[] = {
	COMMON,
	FIELD("country", COUNTRY, REQUIRED,
	      .doc = "ISO 3166-1 alpha-2, upper case."),
	FIELD("city", TEXT, REQUIRED, .min_bytes = 1, .max_bytes = 1024,
	      .doc = "The city or place."),
	FIELD("lines", TEXTS, REQUIRED, .min_count = 1, .max_count = 4,
	      .min_bytes = 1, .max_bytes = 1024,
	      .doc = "The address above the city, line by line."),
};

static const char *const LOCATION_KINDS[] = {"WAREHOUSE", "ZONE", "BIN", NULL};

static const struct field_case PARENT_CASES[] = {
	{"WAREHOUSE", false, NULL},
	{"ZONE", true, "WAREHOUSE"},
	{"BIN", true, "ZONE"},
};

static const struct field LOCATIONS[] = {
	COMMON,
	FIELD("kind", WORD, REQUIRED, .words = LOCATION_KINDS,
	      .use = FIELD_USE_TRAIT, .doc = "What sort of place it is."),
	ITEM_NAME,
	REFERENCE("parent_source_id", OPTIONAL, LOCATIONS, .by = "kind",
		  .use = FIELD_USE_HOME, .cases = PARENT_CASES,
		  .case_count = ARRAY_LEN(PARENT_CASES),
		  .doc = "The place it is in: of a ZONE a WAREHOUSE, of a BIN "
			 "a ZONE; a WAREHOUSE is in none."),
	REFERENCE("address_source_id", OPTIONAL, ADDRESSES,
		  .doc = "Where it is."),
};

static const struct field SKUS[] = {
	COMMON,
	ITEM_NAME,
	REFERENCE("base_uom", REQUIRED, UOMS,
		  .doc = "The unit its stock is kept in."),
	FIELD("description", TEXT, OPTIONAL, .doc = "More about it."),
	FIELD("lot_tracked", BOOLEAN, OPTIONAL,
	      .doc = "Its stock is kept by lot."),
	FIELD("serial_tracked", BOOLEAN, OPTIONAL,
	      .doc = "Each piece has a serial number."),
	FIELD("hazmat_class", TEXT, OPTIONAL, .max_bytes = 1024,
	      .doc = "The class of dangerous goods it belongs to."),
	FIELD("temperature_class", TEXT, OPTIONAL, .max_bytes = 1024,
	      .doc = "How warm or cold it is kept."),
	FIELD("weight_kg", NUMBER, OPTIONAL, .bound = FIELD_NOT_NEGATIVE,
	      .doc = "Weight of one base unit, in kilograms."),
	FIELD("barcodes", TEXTS, OPTIONAL, .min_bytes = 1, .max_bytes = 1024,
	      .doc = "What scanners may read on it."),
};

static const struct field COMPONENT_FIELDS[] = {
	REFERENCE("sku_source_id", REQUIRED, SKUS, .use = FIELD_USE_COMPONENT,
		  .doc = "The SKU that goes into it."),
	QTY,
	UOM,
};
static const struct field_set COMPONENT = SET(COMPONENT_FIELDS);

static const struct field BOMS[] = {
	COMMON,
	REFERENCE("sku_source_id", REQUIRED, SKUS,
		  .use = FIELD_USE_SKU | FIELD_USE_TRAIT,
		  .doc = "The SKU that is made."),
	FIELD("components", OBJECTS, REQUIRED, .min_count = 1,
	      .members = &COMPONENT, .doc = "What it is made of."),
};

static const struct field LOTS[] = {
	COMMON,
	REFERENCE("sku_source_id", REQUIRED, SKUS, .use = FIELD_USE_TRAIT,
		  .doc = "The SKU it is a lot of."),
	FIELD("expires_at", TIME, OPTIONAL, .doc = "Not good after."),
	FIELD("manufactured_at", TIME, OPTIONAL, .doc = "When it was made."),
};

static const struct field SERIALS[] = {
	COMMON,
	REFERENCE("sku_source_id", REQUIRED, SKUS, .use = FIELD_USE_SKU,
		  .doc = "The SKU it is a piece of."),
	REFERENCE("lot_source_id", OPTIONAL, LOTS, .use = FIELD_USE_LOT,
		  .doc = "The lot it came in: one of the same SKU."),
};

static const struct field LINE_FIELDS[] = {
	FIELD("line_no", INTEGER, REQUIRED, .max = ITEM_VERSION_NUMBER_MAX,
	      .doc = "The line's own number."),
	REFERENCE("sku_source_id", REQUIRED, SKUS,
		  .doc = "What the line is for."),
	QTY,
	UOM,
};
static const struct field_set LINE = SET(LINE_FIELDS);

#define LINES                                                               \
	FIELD("lines", OBJECTS, REQUIRED, .min_count = 1, .members = &LINE, \
	      .doc = "One SKU each.")
#define WAREHOUSE(NAME, ...) \
	REFERENCE(NAME, REQUIRED, LOCATIONS, .trait = "WAREHOUSE", __VA_ARGS__)

static const struct field PURCHASE_ORDERS[] = {
	COMMON,
	WAREHOUSE("warehouse_source_id", .use = FIELD_USE_HOME,
		  .doc = "Where the goods come in."),
	LINES,
};

static const struct field SALES_ORDERS[] = {
	COMMON,
	WAREHOUSE("warehouse_source_id", .use = FIELD_USE_HOME,
		  .doc = "Where the goods go out."),
	LINES,
};

static const struct field RECEIVERS[] = {
	COMMON,
	REFERENCE("po_source_id", REQUIRED, PURCHASE_ORDERS,
		  .use = FIELD_USE_HOME,
		  .doc = "The purchase order that is received."),
	LINES,
};

static const struct field SHIPPERS[] = {
	COMMON,
	REFERENCE("so_source_id", REQUIRED, SALES_ORDERS, .use = FIELD_USE_HOME,
		  .doc = "The sales order that is shipped."),
	LINES,
};

static const struct field WORK_ORDERS[] = {
	COMMON,
	WAREHOUSE("warehouse_source_id", .use = FIELD_USE_HOME,
		  .doc = "Where the work is done."),
	REFERENCE("sku_source_id", REQUIRED, SKUS, .doc = "What is made."),
	QTY,
	UOM,
};

static const struct field TRANSFER_ORDERS[] = {
	COMMON,
	WAREHOUSE("from_warehouse_source_id",
		  .use = FIELD_USE_FROM | FIELD_USE_HOME,
		  .doc = "Where the goods leave."),
	WAREHOUSE("to_warehouse_source_id",
		  .use = FIELD_USE_TO | FIELD_USE_HOME,
		  .doc = "Where they arrive: another one."),
	LINES,
};

static const struct field_set SETS[COLLECTION_COUNT] = {
#define COLLECTION(id, area, name, prefix) [COLLECTION_##id] = SET(id),
#include "item/collection.def"
#undef COLLECTION
};

static const char *const KINDS[FIELD_KINDS] = {
	[FIELD_SOURCE_ID] = "source-id", [FIELD_VERSION] = "version",
	[FIELD_TEXT] = "text",           [FIELD_BOOLEAN] = "boolean",
	[FIELD_NUMBER] = "number",       [FIELD_INTEGER] = "integer",
	[FIELD_WORD] = "word",           [FIELD_COUNTRY] = "country",
	[FIELD_TIME] = "time",           [FIELD_REFERENCE] = "reference",
	[FIELD_TEXTS] = "texts",         [FIELD_OBJECTS] = "objects",
};

/* Each line: the codes that begin with that letter. */
static const char COUNTRIES[] =
	"AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ "
	"BA BB BD BE BF BG BH BI BJ BL BM BN BO BQ BR BS BT BV BW BY BZ "
	"CA CC CD CF CG CH CI CK CL CM CN CO CR CU CV CW CX CY CZ "
	"DE DJ DK DM DO DZ "
	"EC EE EG EH ER ES ET "
	"FI FJ FK FM FO FR "
	"GA GB GD GE GF GG GH GI GL GM GN GP GQ GR GS GT GU GW GY "
	"HK HM HN HR HT HU "
	"ID IE IL IM IN IO IQ IR IS IT "
	"JE JM JO JP "
	"KE KG KH KI KM KN KP KR KW KY KZ "
	"LA LB LC LI LK LR LS LT LU LV LY "
	"MA MC MD ME MF MG MH MK ML MM MN MO MP MQ MR MS MT MU MV MW MX MY MZ "
	"NA NC NE NF NG NI NL NO NP NR NU NZ "
	"OM "
	"PA PE PF PG PH PK PL PM PN PR PS PT PW PY "
	"QA "
	"RE RO RS RU RW "
	"SA SB SC SD SE SG SH SI SJ SK SL SM SN SO SR SS ST SV SX SY SZ "
	"TC TD TF TG TH TJ TK TL TM TN TO TR TT TV TW TZ "
	"UA UG UM US UY UZ "
	"VA VC VE VG VI VN VU "
	"WF WS "
	"XK "
	"YE YT "
	"ZA ZM ZW ";

const char *field_kind_name(enum field_kind k)
{
	if (k < 0 || k >= FIELD_KINDS)
		bug("kind %d of a field", (int)k);
	return KINDS[k];
}

const struct field_set *field_set(enum collection c)
{
	if (c < 0 || c >= COLLECTION_COUNT)
		bug("collection %d", (int)c);
	return &SETS[c];
}

const struct field *field_home(enum collection c, size_t n)
{
	const struct field_set *set = field_set(c);

	for (size_t i = 0; i < set->count; i++)
		if (set->fields[i].use & FIELD_USE_HOME && n-- == 0)
			return &set->fields[i];
	return NULL;
}

const struct field *field_find(const struct field_set *set, struct sv name)
{
	for (size_t i = 0; i < set->count; i++) {
		const struct field *f = &set->fields[i];

		if (f->name.n == name.n &&
		    memcmp(f->name.p, name.p, name.n) == 0)
			return f;
	}
	return NULL;
}

bool field_is_country(struct sv code)
{
	for (const char *p = COUNTRIES; code.n == 2 && *p; p += 3)
		if (p[0] == code.p[0] && p[1] == code.p[1])
			return true;
	return false;
}
