# gktune emu: the counters, the worker's report, what people see of it.
gk_test(test_emu_lines SOURCES emu_for_tests.c nvrtc_for_tests.c LIBS gk_emu gk_core gk_dep_cuda m)
gk_test(test_emu_render LIBS gk_cli)
gk_test(test_emu_report LIBS gk_worker LABEL emu TIMEOUT 300)
