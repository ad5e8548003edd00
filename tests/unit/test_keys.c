/* Keys, their files, and the list of the admitted ones. */
#include "core/key_list.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/hash.h"

static char folder[] = "/tmp/gk-test-keys-XXXXXX";

static int make_folder(void **state)
{
    (void)state;
    (void)umask(077);
    return mkdtemp(folder) && gk_hash_setup(NULL) == GK_OK ? 0 : -1;
}

static int remove_folder(void **state)
{
    static const char *const names[] = {"a.key", "b.key", "c.key", GK_STATE_KEYS,
                                        GK_STATE_SERVER_KEY};
    (void)state;
    for (size_t i = 0; i < GK_ARRAY_COUNT(names); i++) {
        char path[128];
        (void)snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        (void)unlink(path);
    }
    return rmdir(folder);
}

static const char *path_of(const char *name)
{
    static char path[128];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void store(const char *name, const char *text, mode_t mode)
{
    int fd = open(path_of(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    assert_int_equal(fchmod(fd, mode), 0);
    assert_int_equal(close(fd), 0);
}

static void test_text(void **state)
{
    (void)state;
    /* The example of ZeroMQ's RFC 32. */
    static const unsigned char bytes[32] = {0x86, 0x4F, 0xD2, 0x6F, 0xB5, 0x59, 0xF7, 0x5B,
                                            0x86, 0x4F, 0xD2, 0x6F, 0xB5, 0x59, 0xF7, 0x5B};
    char text[GK_KEY_TEXT_SIZE];
    struct gk_err err = {0};
    gk_key_encode(bytes, text);
    assert_memory_equal(text, "HelloWorldHelloWorld00000", 25);
    assert_int_equal(strlen(text), 40);
    assert_int_equal(gk_key_text_check(text, "x", &err), GK_OK);
    text[39] = '\0';
    assert_int_equal(gk_key_text_check(text, "x", &err), GK_INPUT);
    assert_non_null(strstr(err.text, "39 characters"));
    assert_int_equal(gk_key_text_check("##########0123456789012345678901234567 9", "x", &err),
                     GK_INPUT);
    /* 85^5 is more than four bytes hold. */
    assert_int_equal(gk_key_text_check("#####00000000000000000000000000000000000", "x", &err),
                     GK_INPUT);
}

static void test_names_and_roles(void **state)
{
    (void)state;
    static const char *const bad[] = {"",     "-a",  ".a",       "a b",  "a/b",
                                      "a\nb", "a\"", "\xc3\xa4", "../x", "a\x1b[31m"};
    struct gk_err err = {0};
    char text[32], longest[66];
    uint8_t roles = 0;
    for (size_t i = 0; i < GK_ARRAY_COUNT(bad); i++) {
        assert_int_equal(gk_key_name_check(bad[i], &err), GK_USAGE);
    }
    memset(longest, 'x', 65);
    longest[65] = '\0';
    assert_int_equal(gk_key_name_check(longest, &err), GK_USAGE);
    longest[64] = '\0';
    assert_int_equal(gk_key_name_check(longest, &err), GK_OK);
    assert_int_equal(gk_key_name_check("node-7.rack_2", &err), GK_OK);
    assert_int_equal(gk_roles_parse("work", &roles, &err), GK_OK);
    assert_int_equal(roles, GK_ROLE_WORK);
    assert_int_equal(gk_roles_parse("admin,submit", &roles, &err), GK_OK);
    assert_int_equal(roles, GK_ROLE_ADMIN | GK_ROLE_SUBMIT);
    gk_roles_text(roles, text);
    assert_string_equal(text, "submit,admin");
    gk_roles_text(0, text);
    assert_string_equal(text, "none");
    assert_int_equal(gk_roles_parse("", &roles, &err), GK_USAGE);
    assert_int_equal(gk_roles_parse("work,", &roles, &err), GK_USAGE);
    assert_int_equal(gk_roles_parse("root", &roles, &err), GK_USAGE);
    assert_non_null(strstr(err.text, "submit, work and admin"));
}

static void test_files(void **state)
{
    (void)state;
    struct gk_key a, b, c;
    struct gk_err err = {0};
    struct stat info;
    assert_int_equal(gk_key_make("a", &a, &err), GK_OK);
    assert_int_equal(gk_key_make("b", &b, &err), GK_OK);
    assert_string_not_equal(a.public_key, b.public_key);
    assert_string_not_equal(a.secret_key, b.secret_key);
    assert_int_equal(gk_key_make("a/b", &c, &err), GK_USAGE);
    memcpy(a.server_key, b.public_key, sizeof a.server_key);
    assert_int_equal(gk_key_save(path_of("a.key"), &a, &err), GK_OK);
    assert_int_equal(stat(path_of("a.key"), &info), 0);
    assert_int_equal(info.st_mode & 07777, 0600);
    assert_int_equal(gk_key_load(path_of("a.key"), &c, &err), GK_OK);
    assert_memory_equal(&a, &c, sizeof a);
    assert_int_equal(gk_key_save(path_of("a.key"), &b, &err), GK_EXISTS);
    /* Everybody else is kept out, whatever the bit. */
    static const mode_t modes[] = {0640, 0604, 0620, 0602, 0610, 0601, 0666};
    for (size_t i = 0; i < GK_ARRAY_COUNT(modes); i++) {
        assert_int_equal(chmod(path_of("a.key"), modes[i]), 0);
        assert_int_equal(gk_key_load(path_of("a.key"), &c, &err), GK_DENIED);
        assert_null(strstr(err.text, a.secret_key));
    }
    assert_int_equal(chmod(path_of("a.key"), 0400), 0);
    assert_int_equal(gk_key_load(path_of("a.key"), &c, &err), GK_OK);
    gk_key_wipe(&c);
    assert_int_equal(c.secret_key[0], 0);
    /* What says only who the daemon is may be read by all. */
    char text[64];
    (void)snprintf(text, sizeof text, "server %s\n", b.public_key);
    store("b.key", text, 0644);
    assert_int_equal(gk_key_load(path_of("b.key"), &c, &err), GK_OK);
    assert_string_equal(c.server_key, b.public_key);
}

static void test_bad_files(void **state)
{
    (void)state;
    static const struct {
        const char *text, *part;
    } bad[] = {
        {"", "no line 'public'"},
        {"hello\n", "line 1"},
        {"# c\n\nname a\npublic x\n", "line 4"},
        {"name ../x\n", "line 1"},
        {"public 0123\n", "4 characters"},
        {"secret 0000000000000000000000000000000000000000\n", "no line 'public'"},
        {"name a\nname b\n", "line 2"},
        {"name a b\n", "line 1: more than one value of 'name'"},
        {"public 0000000000000000000000000000000000000000\n"
         "public 0000000000000000000000000000000000000000\n",
         "line 2"},
        {"public 0000000000000000000000000000000000000000\n"
         "secret 0000000000000000000000000000000000000000\n",
         "not of one pair"},
    };
    struct gk_key key = {0};
    struct gk_err err = {0};
    for (size_t i = 0; i < GK_ARRAY_COUNT(bad); i++) {
        store("c.key", bad[i].text, 0600);
        assert_int_not_equal(gk_key_load(path_of("c.key"), &key, &err), GK_OK);
        if (!strstr(err.text, bad[i].part)) {
            fail_msg("'%s' is not in '%s'", bad[i].part, err.text);
        }
    }
    char *big = malloc(5001);
    assert_non_null(big);
    memset(big, '#', 5000);
    big[5000] = '\0';
    store("c.key", big, 0600);
    free(big);
    assert_int_equal(gk_key_load(path_of("c.key"), &key, &err), GK_INPUT);
    assert_int_equal(gk_key_load(folder, &key, &err), GK_INPUT);
    assert_int_equal(gk_key_load(path_of("none.key"), &key, &err), GK_NOT_FOUND);
    assert_int_equal(gk_key_load("/dev/null", &key, &err), GK_INPUT);
}

static void test_server(void **state)
{
    (void)state;
    struct gk_key first, second;
    struct gk_err err = {0};
    assert_int_equal(gk_key_server(folder, &first, &err), GK_OK);
    assert_int_equal(gk_key_server(folder, &second, &err), GK_OK);
    assert_string_equal(first.secret_key, second.secret_key);
    assert_int_equal(chmod(path_of(GK_STATE_SERVER_KEY), 0644), 0);
    assert_int_equal(gk_key_server(folder, &second, &err), GK_DENIED); /* no new one is made */
    assert_int_equal(chmod(path_of(GK_STATE_SERVER_KEY), 0600), 0);
}

static struct gk_admitted admitted(const char *name, uint8_t roles)
{
    struct gk_admitted key = {.roles = roles, .added_ms = 5};
    struct gk_key pair;
    assert_int_equal(gk_key_make(name, &pair, NULL), GK_OK);
    memcpy(key.name, pair.name, sizeof key.name);
    memcpy(key.public_key, pair.public_key, sizeof key.public_key);
    gk_key_wipe(&pair);
    return key;
}

static void test_list(void **state)
{
    (void)state;
    struct gk_key_list list = {0}, back = {0};
    struct gk_err err = {0};
    char hosts[] = "10.1.0.0/16,192.168.1.7,fd00::/8", bad[] = "somewhere";
    assert_int_equal(gk_key_list_load(folder, &list, &err), GK_OK);
    assert_int_equal(list.count, 0);
    struct gk_admitted a = admitted("a", GK_ROLE_SUBMIT), b = admitted("b", GK_ROLE_WORK);
    b.is_pool = true;
    b.hosts = hosts;
    assert_int_equal(gk_key_list_add(&list, &a, &err), GK_OK);
    assert_int_equal(gk_key_list_add(&list, &b, &err), GK_OK);
    /* A name and a key are there once, for ever. */
    struct gk_admitted again = admitted("a", GK_ROLE_ADMIN), copy = admitted("c", GK_ROLE_ADMIN);
    assert_int_equal(gk_key_list_add(&list, &again, &err), GK_EXISTS);
    memcpy(copy.public_key, a.public_key, sizeof copy.public_key);
    assert_int_equal(gk_key_list_add(&list, &copy, &err), GK_EXISTS);
    struct gk_admitted none = admitted("d", 0), far = admitted("e", GK_ROLE_WORK);
    assert_int_equal(gk_key_list_add(&list, &none, &err), GK_USAGE);
    far.hosts = bad;
    assert_int_equal(gk_key_list_add(&list, &far, &err), GK_USAGE);
    assert_int_equal(gk_key_list_revoke(&list, "x", 7, "lost", &err), GK_NOT_FOUND);
    assert_int_equal(gk_key_list_revoke(&list, "a", 7, "laptop lost", &err), GK_OK);
    assert_int_equal(gk_key_list_revoke(&list, "a", 8, "again", &err), GK_CONFLICT);
    assert_int_equal(gk_key_list_add(&list, &again, &err), GK_EXISTS);
    assert_non_null(strstr(err.text, "was revoked"));
    assert_int_equal(gk_key_list_save(folder, &list, &err), GK_OK);
    struct stat info;
    assert_int_equal(stat(path_of(GK_STATE_KEYS), &info), 0);
    assert_int_equal(info.st_mode & 07777, 0600);
    if (gk_key_list_load(folder, &back, &err) != GK_OK) {
        fail_msg("%s", err.text);
    }
    assert_int_equal(back.count, 2);
    const struct gk_admitted *found = gk_key_list_named(&back, "a");
    assert_int_equal(found->revoked_ms, 7);
    assert_string_equal(found->reason, "laptop lost");
    found = gk_key_list_find(&back, b.public_key);
    assert_string_equal(found->name, "b");
    assert_true(found->is_pool && found->roles == GK_ROLE_WORK);
    assert_string_equal(found->hosts, hosts);
    assert_null(gk_key_list_named(&back, "c"));
    gk_key_list_fini(&back);
    gk_key_list_fini(&list);
    assert_int_equal(chmod(path_of(GK_STATE_KEYS), 0620), 0);
    assert_int_equal(gk_key_list_load(folder, &back, &err), GK_DENIED);
    store(GK_STATE_KEYS, "{\"gktune_keys\":1,\"keys\":[{\"name\":\"x\"}]}", 0600);
    assert_int_equal(gk_key_list_load(folder, &back, &err), GK_INPUT);
    assert_non_null(strstr(err.text, "key 0"));
    store(GK_STATE_KEYS, "{\"gktune_keys\":9,\"keys\":[]}", 0600);
    assert_int_equal(gk_key_list_load(folder, &back, &err), GK_VERSION);
    store(GK_STATE_KEYS, "{", 0600);
    assert_int_not_equal(gk_key_list_load(folder, &back, &err), GK_OK);
    assert_int_equal(back.count, 0);
}

static void test_hosts(void **state)
{
    (void)state;
    static const char list[] = "10.1.0.0/16,192.168.1.7,fd00:1::/32";
    static const char *const in[] = {"10.1.0.0", "10.1.255.255", "192.168.1.7", "::ffff:10.1.2.3",
                                     "fd00:1::5"};
    static const char *const out[] = {"10.2.0.0", "192.168.1.8", "fd00:2::5",
                                      "",         "localhost",   "0.10.1.0"};
    static const char *const bad[] = {"",  "a",         "10.1.0.0/33", "10.1.0.0/", "10.1.0.0/x",
                                      ",", "10.1.0.0,", "10.1.0.0 ",   "fd00::/129"};
    assert_int_equal(gk_hosts_check(list, NULL), GK_OK);
    for (size_t i = 0; i < GK_ARRAY_COUNT(in); i++) {
        assert_true(gk_hosts_match(list, in[i]));
    }
    for (size_t i = 0; i < GK_ARRAY_COUNT(out); i++) {
        assert_false(gk_hosts_match(list, out[i]));
    }
    for (size_t i = 0; i < GK_ARRAY_COUNT(bad); i++) {
        assert_int_equal(gk_hosts_check(bad[i], NULL), GK_USAGE);
    }
    assert_true(gk_hosts_match(NULL, "1.2.3.4"));
    assert_true(gk_hosts_match("0.0.0.0/0", "1.2.3.4"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),   cmocka_unit_test(test_names_and_roles),
        cmocka_unit_test(test_files),  cmocka_unit_test(test_bad_files),
        cmocka_unit_test(test_server), cmocka_unit_test(test_list),
        cmocka_unit_test(test_hosts),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
