# The worker. Tests that compile with NVRTC are skipped (77) without it.
gk_test(test_trial LIBS gk_worker LABEL emu TIMEOUT 300)
gk_test(test_supervisor SOURCES fake_daemon.c LIBS gk_worker TIMEOUT 300)
add_dependencies(test_supervisor gktune-worker)
