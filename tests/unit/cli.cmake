gk_test(test_blob_text LIBS gk_cli)
gk_test(test_export LIBS gk_cli)
