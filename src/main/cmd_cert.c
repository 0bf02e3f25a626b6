/* waybill cert add|list|revoke */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base.h"

#include <errno.h>

#include "base/clock.h"
#include "base/text.h"
#include "main/credential.h"

/* 64 hex digits, plain or as openssl prints them: 12:AB:... */
static bool read_fingerprint(struct sv word, uint8_t sum_r[DIGEST_BYTES])
{
	char plain[2 * DIGEST_BYTES];
	bool colons = word.n == 3 * DIGEST_BYTES - 1;

	if (!colons)
		return text_hex_decode(word, sum_r, DIGEST_BYTES);
	for (size_t i = 0; i < DIGEST_BYTES; i++) {
		memcpy(plain + 2 * i, word.p + 3 * i, 2);
		if (i && word.p[3 * i - 1] != ':')
			return false;
	}
	return text_hex_decode(sv_from(plain, sizeof(plain)), sum_r,
			       DIGEST_BYTES);
}

static bool read_text(struct cli *cli, const char *path, struct sv *text_r,
		      struct fail *f)
{
	char *text = arena_reserve(&cli->arena, DIGEST_PEM_MAX + 1);
	FILE *file = fopen(path, "re");
	bool ok;

	if (!file)
		return fail_set(f, FAIL_CERT_INPUT,
				"%s is neither 64 hex digits nor a file that "
				"can be read: %s",
				path, strerror(errno));
	*text_r = sv_from(text, fread(text, 1, DIGEST_PEM_MAX + 1, file));
	ok = !ferror(file);
	if (!ok)
		fail_errno(f, FAIL_CERT_INPUT, "read", path);
	fclose(file);
	return ok;
}

static bool check_pem(const struct digest_pem *pem, bool whole,
		      const char *path, struct fail *f)
{
	if (pem->has_private_key)
		return fail_set(f, FAIL_CERT_INPUT,
				"%s holds a private key: it must not leave its "
				"owner; give the certificate alone",
				path);
	if (!whole || !pem->certs)
		return fail_set(f, FAIL_CERT_INPUT,
				"%s holds no certificate in PEM form", path);
	if (pem->certs > 1)
		return fail_set(f, FAIL_CERT_INPUT,
				"%s holds %zu certificates: give the client's "
				"own alone, without those that signed it",
				path, pem->certs);
	return true;
}

/* One that is not valid yet may be registered ahead. */
static bool check_time(const struct digest_cert *cert, const char *path,
		       struct fail *f)
{
	char until[CLOCK_TEXT];

	if (cert->not_after_ms >= clock_wall_ms())
		return true;
	clock_rfc3339(cert->not_after_ms, until);
	return fail_set(f, FAIL_CERT_INPUT,
			"%s: the certificate was valid until %s", path, until);
}

static bool read_file(struct cli *cli, const char *path,
		      uint8_t sum_r[DIGEST_BYTES], struct fail *f)
{
	struct digest_pem pem;
	struct sv text;
	bool whole;

	if (!read_text(cli, path, &text, f))
		return false;
	whole = digest_pem_read(text, &pem);
	digest_wipe((void *)(uintptr_t)text.p, text.n);
	if (!check_pem(&pem, whole, path, f) ||
	    !check_time(&pem.first, path, f))
		return false;
	memcpy(sum_r, pem.first.fingerprint, DIGEST_BYTES);
	return true;
}

/* Prints the id alone, as that is what `cert revoke` wants. */
static bool add(struct cli *cli, struct fail *f)
{
	struct credential c = {.cli = cli, .kind = &CREDENTIAL_CERT};
	struct buf hex;

	if (!credential_options(&c, f))
		return false;
	if (!read_fingerprint(cli->words[1], c.hash) &&
	    !read_file(cli, arena_dup(&cli->arena, cli->words[1]), c.hash, f))
		return false;
	auth_id_make(c.id);
	if (!credential_add(&c, f))
		return false;
	buf_init(&hex, 2 * DIGEST_BYTES + 1);
	buf_add_hex(&hex, c.hash, sizeof(c.hash));
	if (cli->json)
		printf("{\"id\":\"%s\",\"fingerprint\":\"%s\"}\n", c.id,
		       buf_cstr(&hex));
	else
		puts(c.id);
	buf_release(&hex);
	return true;
}

static bool list(struct cli *cli, struct fail *f)
{
	return credential_list(cli, &CREDENTIAL_CERT, f);
}

static bool revoke(struct cli *cli, struct fail *f)
{
	return credential_revoke(cli, &CREDENTIAL_CERT, f);
}

const struct cli_command CMD_CERT_ADD = {
	"cert",
	"add",
	"PARTNER FILE|FINGERPRINT " CREDENTIAL_ARGUMENTS,
	CREDENTIAL_OPTIONS,
	2,
	2,
	true,
	add};
const struct cli_command CMD_CERT_LIST = {"cert", "list", "[PARTNER]", NULL,
					  0,      1,      true,        list};
const struct cli_command CMD_CERT_REVOKE = {"cert", "revoke", "ID", NULL,
					    1,      1,        true, revoke};
