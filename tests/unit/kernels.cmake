# Kernels on the emulated device, planned by the catalog, compiled by NVRTC.
if(TARGET gk_render AND TARGET gk_emu AND TARGET gk_search)
  gk_test(test_gemm_emu SOURCES plan_run.c nvrtc_for_tests.c
    LIBS gk_render gk_search gk_emu gk_core gk_dep_cuda m TIMEOUT 600 LABEL emu)
  gk_test(test_vector_add_emu SOURCES plan_run.c nvrtc_for_tests.c
    LIBS gk_render gk_search gk_emu gk_core gk_dep_cuda m TIMEOUT 300 LABEL emu)
endif()
