/* Evidence: everything that was measured behind the rows of a header, and all that changes from day
 * to day. */
#include "cli/export_model.h"

#include <string.h>

enum gk_status export_evidence_json(const struct export_set *set, const char *store,
                                    struct gk_json **json_out, struct gk_err *err)
{
    struct gk_json *json = gk_json_new_object(), *rows = gk_json_new_array();
    bool ok = json && rows && gk_json_set_string(json, "op", set->op_name) &&
              gk_json_set_string(json, "arch", set->arch) &&
              gk_json_set_string(json, "target", set->target) &&
              gk_json_set_string(json, "policy", set->policy) &&
              gk_json_set_bool(json, "modelled", set->modelled) &&
              gk_json_set_string(json, "store", store ? store : "");
    for (uint32_t i = 0; i < set->row_count && ok; i++) {
        struct gk_json *row = gk_json_copy(set->rows[i].json);
        ok = row && gk_json_set_int(row, "row", i);
        ok = gk_json_push(rows, row) && ok;
    }
    ok = gk_json_set(json, "rows", rows) && ok;
    if (!ok) {
        gk_json_free(json);
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    *json_out = json;
    return GK_OK;
}
