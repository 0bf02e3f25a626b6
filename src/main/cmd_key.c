/* waybill key create|list|revoke */
/* SPDX-License-Identifier: Apache-2.0 */
#include "main/credential.h"

/* Prints the key alone, so that a script can take it as it is. */
static bool create(struct cli *cli, struct fail *f)
{
	struct credential c = {.cli = cli, .kind = &CREDENTIAL_KEY};
	struct auth_key key;
	struct auth *auth;
	bool ok;

	if (!credential_options(&c, f) || !auth_new(&auth, &cli->conf, f))
		return false;
	auth_key_make(auth, &key);
	memcpy(c.id, key.id, sizeof(c.id));
	memcpy(c.hash, key.hash, sizeof(c.hash));
	ok = credential_add(&c, f);
	if (ok && cli->json)
		printf("{\"id\":\"%s\",\"key\":\"%s\"}\n", key.id, key.key);
	else if (ok)
		puts(key.key);
	digest_wipe(&key, sizeof(key));
	auth_free(auth);
	return ok;
}

static bool list(struct cli *cli, struct fail *f)
{
	return credential_list(cli, &CREDENTIAL_KEY, f);
}

static bool revoke(struct cli *cli, struct fail *f)
{
	return credential_revoke(cli, &CREDENTIAL_KEY, f);
}

const struct cli_command CMD_KEY_CREATE = {"key",
					   "create",
					   "PARTNER " CREDENTIAL_ARGUMENTS,
					   CREDENTIAL_OPTIONS,
					   1,
					   1,
					   true,
					   create};
const struct cli_command CMD_KEY_LIST = {"key", "list", "[PARTNER]", NULL,
					 0,     1,      true,        list};
const struct cli_command CMD_KEY_REVOKE = {"key", "revoke", "ID", NULL,
					   1,     1,        true, revoke};
