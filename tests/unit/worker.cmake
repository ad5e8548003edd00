# The worker. Tests that compile with NVRTC are skipped (77) without it.
gk_test(test_trial LIBS gk_worker LABEL emu TIMEOUT 300)
