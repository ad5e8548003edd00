gk_test(test_pipe_frame SOURCES ${CMAKE_SOURCE_DIR}/worker/pipe_frame.c LIBS gk_core)
gk_test(test_cache SOURCES ${CMAKE_SOURCE_DIR}/worker/cache.c LIBS gk_core)
gk_test(test_spool SOURCES ${CMAKE_SOURCE_DIR}/worker/spool.c ${CMAKE_SOURCE_DIR}/worker/spool_bundle.c
  LIBS gk_core)
