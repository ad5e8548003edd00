# The CUDA device over doubles of the driver and of NVML, opened as the real ones are.
foreach(name fake_cuda fake_nvml)
  add_library(gk_${name} MODULE ${CMAKE_SOURCE_DIR}/tests/support/${name}.c)
  set_target_properties(gk_${name} PROPERTIES OUTPUT_NAME ${name}
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/fake_gpu)
  target_link_libraries(gk_${name} PRIVATE gk_flags gk_dep_cuda)
endforeach()
foreach(name test_device_cuda test_cuda_record test_cuda_about)
  gk_test(${name} SOURCES cuda_rig.c LIBS gk_cuda)
  target_compile_definitions(${name} PRIVATE
    GK_FAKE_CUDA="${CMAKE_BINARY_DIR}/tests/fake_gpu/libfake_cuda.so"
    GK_FAKE_NVML="${CMAKE_BINARY_DIR}/tests/fake_gpu/libfake_nvml.so")
  add_dependencies(${name} gk_fake_cuda gk_fake_nvml)
endforeach()
