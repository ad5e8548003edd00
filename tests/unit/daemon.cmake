gk_test(test_db LIBS gk_db)
gk_test(test_core_path SOURCES daemon_rig.c LIBS gk_daemon)
