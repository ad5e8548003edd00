gk_test(test_status LIBS gk_core)
gk_test(test_buf LIBS gk_core)
gk_test(test_id_table LIBS gk_core)
gk_test(test_base64 LIBS gk_core)
gk_test(test_hash LIBS gk_core)
gk_test(test_prng LIBS gk_core)
gk_test(test_policy LIBS gk_core)
gk_test(test_json LIBS gk_core)
gk_test(test_expr LIBS gk_core)
add_library(gk_sample_op STATIC ${CMAKE_SOURCE_DIR}/tests/support/sample_op.c)
target_link_libraries(gk_sample_op PUBLIC gk_core)
gk_test(test_problem LIBS gk_sample_op)
gk_test(test_shapes LIBS gk_sample_op)
gk_test(test_config LIBS gk_core)
gk_test(test_device_props LIBS gk_core)
gk_test(test_record LIBS gk_core)

# What the code writes is what the schemas say: the test writes, a second case validates.
set(gk_validate ${CMAKE_SOURCE_DIR}/tests/support/validate.py)
set_tests_properties(test_record PROPERTIES FIXTURES_SETUP written_records)
set_tests_properties(test_device_props PROPERTIES FIXTURES_SETUP written_devices)
add_test(NAME schema_record COMMAND ${gk_validate} --lines
  ${CMAKE_SOURCE_DIR}/schemas/record.schema.json test_record.jsonl)
add_test(NAME schema_record_refuses COMMAND ${gk_validate} --lines --invalid
  ${CMAKE_SOURCE_DIR}/schemas/record.schema.json test_record_bad.jsonl)
add_test(NAME schema_device COMMAND ${gk_validate} --lines
  ${CMAKE_SOURCE_DIR}/schemas/device.schema.json test_device_props.jsonl)
set_tests_properties(schema_record schema_record_refuses PROPERTIES FIXTURES_REQUIRED written_records)
set_tests_properties(schema_device PROPERTIES FIXTURES_REQUIRED written_devices)
set_tests_properties(schema_record schema_record_refuses schema_device PROPERTIES TIMEOUT 60)
gk_test(test_nomem LIBS gk_sample_op)
target_link_options(test_nomem PRIVATE -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc)

# Shapes files of models and of the fuzz corpus: what the reader accepts the schema accepts, and what only it refuses.
file(GLOB shapes_of_models CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/examples/shapes/*.json)
set(shapes_corpus ${CMAKE_SOURCE_DIR}/tests/fuzz/corpus/shapes)
add_test(NAME schema_shapes COMMAND ${gk_validate} ${CMAKE_SOURCE_DIR}/schemas/shapes.schema.json
  ${shapes_corpus}/rows.json ${shapes_corpus}/bare.json ${shapes_corpus}/family.json
  ${shapes_corpus}/each.json ${shapes_of_models})
add_test(NAME schema_shapes_refuses COMMAND ${gk_validate} --invalid
  ${CMAKE_SOURCE_DIR}/schemas/shapes.schema.json ${shapes_corpus}/wrong.json
  ${shapes_corpus}/empty_list.json ${shapes_corpus}/top.json)
set_tests_properties(schema_shapes schema_shapes_refuses PROPERTIES TIMEOUT 60)
gk_test(test_told SOURCES ${CMAKE_SOURCE_DIR}/tests/support/sample_trials.c LIBS gk_db m)

# The sanitizers' own options: without the sanitizers there is nothing to test.
if(GKTUNE_SANITIZE)
  add_library(gk_tls_word MODULE ${CMAKE_SOURCE_DIR}/tests/support/tls_word.c)
  target_include_directories(gk_tls_word PRIVATE ${CMAKE_SOURCE_DIR})
  gk_test(test_sanitizer_options LIBS gk_core)
  target_compile_definitions(test_sanitizer_options PRIVATE GK_TLS_WORD_LIBRARY="$<TARGET_FILE:gk_tls_word>")
  add_dependencies(test_sanitizer_options gk_tls_word)
endif()
