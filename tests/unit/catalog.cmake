gk_test(test_catalog_gemm LIBS gk_render)
gk_test(test_catalog LIBS gk_render)
gk_test(test_catalog_token LIBS gk_catalog)
gk_test(test_render LIBS gk_render)
gk_test(test_op_shapes LIBS gk_render)
gk_test(test_catalog_nomem LIBS gk_render TIMEOUT 300)
target_link_options(test_catalog_nomem PRIVATE -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc)

# Every op.json and kernel.json of the tree against the schemas, so that a validator and the loader agree
# on what is right; and the broken ones whose mistake a schema can see.
set(gk_formats kernels examples tests/data/kernels)
list(TRANSFORM gk_formats PREPEND ${CMAKE_SOURCE_DIR}/)
foreach(format op kernel)
  set(files)
  foreach(folder ${gk_formats})
    if(format STREQUAL op)
      file(GLOB_RECURSE found CONFIGURE_DEPENDS ${folder}/op.json)
    else()
      file(GLOB_RECURSE found CONFIGURE_DEPENDS ${folder}/*.kernel.json)
    endif()
    list(APPEND files ${found})
  endforeach()
  list(FILTER files EXCLUDE REGEX "/broken/")
  add_test(NAME schema_${format}
    COMMAND ${CMAKE_SOURCE_DIR}/tests/support/validate.py
      ${CMAKE_SOURCE_DIR}/schemas/${format}.schema.json ${files})
endforeach()
set(broken ${CMAKE_SOURCE_DIR}/tests/data/kernels/broken)
add_test(NAME schema_op_refuses
  COMMAND ${CMAKE_SOURCE_DIR}/tests/support/validate.py --invalid
    ${CMAKE_SOURCE_DIR}/schemas/op.schema.json ${broken}/op_defaults/op.json ${broken}/op_fields/op.json
    ${broken}/op_missing/op.json ${broken}/op_rows/op.json ${broken}/op_reference/op.json ${broken}/op_tensors/op.json ${broken}/op_vendor/op.json
    ${broken}/op_vendor_parts/op.json ${broken}/op_vendor_shape/op.json)
add_test(NAME schema_kernel_refuses
  COMMAND ${CMAKE_SOURCE_DIR}/tests/support/validate.py --invalid
    ${CMAKE_SOURCE_DIR}/schemas/kernel.schema.json ${broken}/bad_archs.kernel.json
    ${broken}/bad_launch.kernel.json ${broken}/bad_macro.kernel.json ${broken}/bad_map.kernel.json ${broken}/bad_prior.kernel.json
    ${broken}/no_launch.kernel.json ${broken}/path_absolute.kernel.json ${broken}/path_escape.kernel.json
    ${broken}/unknown_key.kernel.json ${broken}/wrong_args.kernel.json ${broken}/wrong_types.kernel.json)
set_tests_properties(schema_op schema_kernel schema_op_refuses schema_kernel_refuses PROPERTIES TIMEOUT 60)
