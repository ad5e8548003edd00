# The vendor's row: its two files over a fake cuBLASLt (opened as the real one is) and a fake CUDA device.
add_library(gk_fake_cublaslt MODULE ${CMAKE_SOURCE_DIR}/tests/support/fake_cublaslt.c)
set_target_properties(gk_fake_cublaslt PROPERTIES OUTPUT_NAME cublasLt
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/fake_cublaslt)
target_link_libraries(gk_fake_cublaslt PRIVATE gk_flags gk_dep_cuda m)
gk_test(test_vendor SOURCES ${CMAKE_SOURCE_DIR}/worker/cuda/cublaslt.c
  ${CMAKE_SOURCE_DIR}/worker/cuda/vendor_cublaslt.c LIBS gk_render gk_catalog gk_core gk_dep_cuda m)
target_compile_definitions(test_vendor PRIVATE
  GK_FAKE_CUBLASLT="${CMAKE_BINARY_DIR}/tests/fake_cublaslt/libcublasLt.so")
add_dependencies(test_vendor gk_fake_cublaslt)
