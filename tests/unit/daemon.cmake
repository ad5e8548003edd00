gk_test(test_core_path SOURCES daemon_rig.c LIBS gk_daemon)
