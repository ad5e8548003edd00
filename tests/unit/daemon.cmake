gk_test(test_db LIBS gk_db)
gk_test(test_core_path SOURCES daemon_rig.c LIBS gk_daemon)
gk_test(test_daemon_e2e LIBS gk_link gk_catalog TIMEOUT 180)
add_dependencies(test_daemon_e2e gktuned)
