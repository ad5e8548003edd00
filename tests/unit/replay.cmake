gk_test(test_replay LIBS gk_search)
gk_test(test_replay_run LIBS gk_search)
gk_test(test_replay_t4 LIBS gk_search)
