gk_test(test_db LIBS gk_db)
gk_test(test_db_operators SOURCES ${CMAKE_SOURCE_DIR}/tests/support/sample_trials.c LIBS gk_db m)
gk_test(test_backup SOURCES ${CMAKE_SOURCE_DIR}/tests/support/sample_trials.c LIBS gk_db m)
gk_test(test_core_path SOURCES daemon_rig.c LIBS gk_daemon)
gk_test(test_suite SOURCES daemon_rig.c LIBS gk_daemon)
gk_test(test_sessions SOURCES daemon_rig.c LIBS gk_daemon)
gk_test(test_roles SOURCES daemon_rig.c LIBS gk_daemon)
gk_test(test_blobs LIBS gk_daemon_shell)
gk_test(test_prior SOURCES daemon_rig.c LIBS gk_daemon TIMEOUT 120)
gk_test(test_operators SOURCES daemon_rig.c LIBS gk_daemon)
gk_test(test_requests SOURCES daemon_rig.c LIBS gk_daemon)
gk_test(test_shares SOURCES daemon_rig.c LIBS gk_daemon)
gk_test(test_measured SOURCES daemon_rig.c LIBS gk_daemon)
gk_test(test_spread SOURCES daemon_rig.c LIBS gk_daemon)
gk_test(test_daemon_e2e LIBS gk_link gk_catalog TIMEOUT 180)
add_dependencies(test_daemon_e2e gktuned gktune)

# Every message that the core and the scripted parties exchanged is what the schema says; wrong ones are refused.
set_tests_properties(test_core_path PROPERTIES FIXTURES_SETUP written_messages)
set_tests_properties(test_measured PROPERTIES FIXTURES_SETUP measured_messages)
set_tests_properties(test_spread PROPERTIES FIXTURES_SETUP spread_messages)
add_test(NAME schema_message_spread COMMAND ${gk_validate} --lines
  ${CMAKE_SOURCE_DIR}/schemas/message.schema.json test_spread.jsonl)
set_tests_properties(schema_message_spread PROPERTIES FIXTURES_REQUIRED spread_messages TIMEOUT 60 LABELS unit)
set_tests_properties(test_operators PROPERTIES FIXTURES_SETUP operator_messages)
add_test(NAME schema_message_operators COMMAND ${gk_validate} --lines
  ${CMAKE_SOURCE_DIR}/schemas/message.schema.json test_operators.jsonl)
set_tests_properties(schema_message_operators PROPERTIES FIXTURES_REQUIRED operator_messages TIMEOUT 60 LABELS unit)
add_test(NAME schema_message COMMAND ${gk_validate} --lines
  ${CMAKE_SOURCE_DIR}/schemas/message.schema.json test_core_path.jsonl)
add_test(NAME schema_message_measured COMMAND ${gk_validate} --lines
  ${CMAKE_SOURCE_DIR}/schemas/message.schema.json test_measured.jsonl)
add_test(NAME schema_message_refuses COMMAND ${gk_validate} --lines --invalid
  ${CMAKE_SOURCE_DIR}/schemas/message.schema.json ${CMAKE_SOURCE_DIR}/tests/data/store/bad_messages.jsonl)
set_tests_properties(schema_message PROPERTIES FIXTURES_REQUIRED written_messages)
set_tests_properties(schema_message_measured PROPERTIES FIXTURES_REQUIRED measured_messages)
set_tests_properties(schema_message schema_message_measured schema_message_refuses PROPERTIES TIMEOUT 60 LABELS unit)
