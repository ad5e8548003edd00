# The worker. Tests that compile with NVRTC are skipped (77) without it.
foreach(name test_numeric test_generate test_compile_log test_code_cache test_child_frame test_spool
    test_verify test_measure)
  gk_test(${name} LIBS gk_worker)
endforeach()
gk_test(test_trial LIBS gk_worker LABEL emu TIMEOUT 300)
gk_test(test_ops_emu LIBS gk_worker gk_search LABEL emu TIMEOUT 900)
gk_test(test_sandbox LIBS gk_worker)
gk_test(test_supervisor SOURCES fake_daemon.c LIBS gk_worker TIMEOUT 300)
add_dependencies(test_sandbox gktune-worker)
gk_test(test_drain SOURCES fake_daemon.c LIBS gk_worker TIMEOUT 120)
add_dependencies(test_supervisor gktune-worker)
add_dependencies(test_drain gktune-worker)
