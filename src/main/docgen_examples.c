/* docgen: one example for each collection, for openapi.yaml and
 * collections.md. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "main/docgen.h"

#define LINES(QTY)                                                  \
	"\"lines\":[{\"line_no\":1,\"sku_source_id\":\"SKU-1001\"," \
	"\"qty\":" QTY ",\"uom\":\"EA\"}]"
#define HEAD(ID) "{\"source_id\":\"" ID "\",\"source_version\":1,"

static const struct example EXAMPLES[COLLECTION_COUNT] = {
	[COLLECTION_UOMS] = {"Uom",
			     "Uoms",
			     "unit of measure",
			     "EA",
			     {HEAD("EA") "\"name\":\"Each\"}"}},
	[COLLECTION_ADDRESSES] =
		{"Address",
		 "Addresses",
		 "address",
		 "ADR-HAM",
		 {HEAD("ADR-HAM") "\"country\":\"DE\",\"city\":\"Hamburg\","
				  "\"lines\":[\"Nordlager GmbH\","
				  "\"Am Sandtorkai 1\"]}"}},
	[COLLECTION_LOCATIONS] =
		{"Location",
		 "Locations",
		 "location",
		 "WH-HAM",
		 {HEAD("WH-HAM") "\"kind\":\"WAREHOUSE\",\"name\":\"Hamburg\","
				 "\"address_source_id\":\"ADR-HAM\"}",
		  HEAD("WH-MUC") "\"kind\":\"WAREHOUSE\","
				 "\"name\":\"Munich\"}"}},
	[COLLECTION_SKUS] =
		{"Sku",
		 "Skus",
		 "SKU",
		 "SKU-1001",
		 {HEAD("SKU-1001") "\"name\":\"Espresso beans 1 kg\","
				   "\"base_uom\":\"EA\",\"lot_tracked\":true,"
				   "\"weight_kg\":1.05,"
				   "\"barcodes\":[\"4006381333931\"]}",
		  HEAD("SKU-2001") "\"name\":\"Gift box\","
				   "\"base_uom\":\"EA\"}"}},
	[COLLECTION_BOMS] =
		{"Bom",
		 "Boms",
		 "bill of materials",
		 "BOM-2001",
		 {HEAD("BOM-2001") "\"sku_source_id\":\"SKU-2001\","
				   "\"components\":[{\"sku_source_id\":"
				   "\"SKU-1001\",\"qty\":2,"
				   "\"uom\":\"EA\"}]}"}},
	[COLLECTION_LOTS] =
		{"Lot",
		 "Lots",
		 "lot",
		 "LOT-7",
		 {HEAD("LOT-7") "\"sku_source_id\":\"SKU-1001\","
				"\"manufactured_at\":\"2026-01-15T08:00:00Z\","
				"\"expires_at\":\"2027-01-15T00:00:00Z\"}"}},
	[COLLECTION_SERIALS] =
		{"Serial",
		 "Serials",
		 "serial number",
		 "SN-000123",
		 {HEAD("SN-000123") "\"sku_source_id\":\"SKU-1001\","
				    "\"lot_source_id\":\"LOT-7\"}"}},
	[COLLECTION_PURCHASE_ORDERS] =
		{"PurchaseOrder",
		 "PurchaseOrders",
		 "purchase order",
		 "PO-4711",
		 {HEAD("PO-4711") "\"warehouse_source_id\":\"WH-HAM\"," LINES(
			 "24") "}"}},
	[COLLECTION_SALES_ORDERS] =
		{"SalesOrder",
		 "SalesOrders",
		 "sales order",
		 "SO-815",
		 {HEAD("SO-815") "\"warehouse_source_id\":\"WH-HAM\"," LINES(
			 "3") "}"}},
	[COLLECTION_RECEIVERS] =
		{"Receiver",
		 "Receivers",
		 "receiver",
		 "RCV-31",
		 {HEAD("RCV-31") "\"po_source_id\":\"PO-4711\"," LINES(
			 "24") "}"}},
	[COLLECTION_SHIPPERS] =
		{"Shipper",
		 "Shippers",
		 "shipper",
		 "SHP-52",
		 {HEAD("SHP-52") "\"so_source_id\":\"SO-815\"," LINES(
			 "3") "}"}},
	[COLLECTION_WORK_ORDERS] =
		{"WorkOrder",
		 "WorkOrders",
		 "work order",
		 "WO-9",
		 {HEAD("WO-9") "\"warehouse_source_id\":\"WH-HAM\","
			       "\"sku_source_id\":\"SKU-2001\",\"qty\":5,"
			       "\"uom\":\"EA\"}"}},
	[COLLECTION_TRANSFER_ORDERS] =
		{"TransferOrder",
		 "TransferOrders",
		 "transfer order",
		 "TO-12",
		 {HEAD("TO-12") "\"from_warehouse_source_id\":\"WH-HAM\","
				"\"to_warehouse_source_id\":\"WH-MUC\"," LINES(
					"6") "}"}},
};

const struct example *docgen_example(enum collection c)
{
	if (c < 0 || c >= COLLECTION_COUNT || !EXAMPLES[c].one)
		bug("collection %d has no example", (int)c);
	return &EXAMPLES[c];
}

void docgen_print_batch(enum collection c)
{
	const struct example *e = docgen_example(c);

	printf("{\"items\":[%s", e->items[0]);
	for (size_t i = 1; i < EXAMPLE_ITEMS_MAX && e->items[i]; i++)
		printf(",%s", e->items[i]);
	printf("]}");
}

void docgen_print_quoted(const char *text)
{
	putchar('\'');
	for (; *text; text++) {
		if (*text == '\'')
			putchar('\'');
		putchar(*text);
	}
	putchar('\'');
}
