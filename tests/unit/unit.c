/* The runner: unit-tests [SUITE...]; ends with "N passed, N failed, N
 * skipped" and exits 1 if any failed. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <CUnit/CUnit.h>
#include <CUnit/TestRun.h>
#include <CUnit/CUError.h>
#include <inttypes.h>

static CU_pSuite adding;
static const char *test_name = "";
static unsigned failed_checks, passed, failed, skipped;
static bool skipping;

void unit_add(const char *name, void (*test)(void))
{
	if (!CU_add_test(adding, name, test))
		bug("CU_add_test(%s): %s", name, CU_get_error_msg());
}

static void check(bool ok, const char *file, int line)
{
	if (!ok)
		failed_checks++;
	CU_assertImplementation(ok, (unsigned)line, "", file, "", CU_FALSE);
}

void unit_want(bool ok, const char *what, const char *file, int line)
{
	check(ok, file, line);
	if (!ok)
		printf("%s:%d: %s: not true: %s\n", file, line, test_name,
		       what);
}

void unit_want_u64(uint64_t got, uint64_t want, const char *what,
		   const char *file, int line)
{
	check(got == want, file, line);
	if (got != want)
		printf("%s:%d: %s: %s is %" PRIu64 ", want %" PRIu64 "\n", file,
		       line, test_name, what, got, want);
}

void unit_want_sv(struct sv got, struct sv want, const char *what,
		  const char *file, int line)
{
	check(sv_eq(got, want), file, line);
	if (!sv_eq(got, want))
		printf("%s:%d: %s: %s is \"%.*s\", want \"%.*s\"\n", file, line,
		       test_name, what, SV_ARG(got), SV_ARG(want));
}

void unit_want_fail(const struct fail *f, enum fail_code want, const char *file,
		    int line)
{
	check(f->code == want, file, line);
	if (f->code != want)
		printf("%s:%d: %s: failed with %s (%s; %s), want %s\n", file,
		       line, test_name, fail_info(f->code)->name, f->detail,
		       f->log, fail_info(want)->name);
}

void unit_skip(const char *why)
{
	skipping = true;
	printf("%s: skipped: %s\n", test_name, why);
}

static void on_start(const CU_pTest test, const CU_pSuite suite)
{
	(void)suite;
	test_name = test->pName;
	failed_checks = 0;
	skipping = false;
}

static void on_end(const CU_pTest test, const CU_pSuite suite,
		   const CU_pFailureRecord failure)
{
	(void)failure;
	if (failed_checks)
		printf("FAILED %s: %s\n", suite->pName, test->pName);
	if (failed_checks)
		failed++;
	else if (skipping)
		skipped++;
	else
		passed++;
	fflush(stdout);
}

static bool chosen(const char *name, int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (strcmp(argv[i], name) == 0)
			return true;
	return argc < 2;
}

static void add_suite(const char *name, void (*fill)(void))
{
	adding = CU_add_suite(name, NULL, NULL);
	if (!adding)
		bug("CU_add_suite(%s)", name);
	fill();
}

int main(int argc, char **argv)
{
	if (CU_initialize_registry() != CUE_SUCCESS)
		bug("CU_initialize_registry");
#define SUITE(name)                    \
	if (chosen(#name, argc, argv)) \
		add_suite(#name, suite_##name);
#include "suites.def"
#undef SUITE
	CU_set_test_start_handler(on_start);
	CU_set_test_complete_handler(on_end);
	CU_run_all_tests();
	CU_cleanup_registry();
	printf("%u passed, %u failed, %u skipped\n", passed, failed, skipped);
	return failed || passed + skipped == 0;
}
