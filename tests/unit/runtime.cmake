# gktuned and gktune-worker as programs: the log, the config, the service manager, the disk, the page of metrics.
gk_test(test_log LIBS gk_core)
gk_test(test_notify LIBS gk_core)
gk_test(test_settings LIBS gk_daemon_shell)
gk_test(test_disk LIBS gk_daemon_shell)
gk_test(test_full SOURCES daemon_rig.c LIBS gk_daemon)
gk_test(test_metrics LIBS gk_daemon_shell)
# The page that test_metrics wrote, and the alerts over it, checked as Prometheus would.
set_tests_properties(test_metrics PROPERTIES FIXTURES_SETUP metrics_page)
add_test(NAME metrics_exposition COMMAND python3 ${CMAKE_SOURCE_DIR}/tests/support/exposition.py test_metrics.txt
  ${CMAKE_SOURCE_DIR}/deploy/prometheus/gktune.rules.yml ${CMAKE_SOURCE_DIR}/docs/operating.md
  ${CMAKE_SOURCE_DIR}/daemon/notice.h ${CMAKE_SOURCE_DIR}/worker/supervisor.h)
add_test(NAME metrics_exposition_refuses COMMAND python3 ${CMAKE_SOURCE_DIR}/tests/support/exposition.py --self-test)
set_tests_properties(metrics_exposition PROPERTIES FIXTURES_REQUIRED metrics_page)
set_tests_properties(metrics_exposition metrics_exposition_refuses PROPERTIES TIMEOUT 60 LABELS unit)
