if(TARGET gk_render)
  gk_test(test_catalog_gemm LIBS gk_render)
  gk_test(test_catalog LIBS gk_render)
endif()
