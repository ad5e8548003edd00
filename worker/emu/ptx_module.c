/*
 * Module level of PTX: files, variables with their initialisers, and the headers of functions.
 * Bodies are only skipped here; ptx_decode.c reads them once an entry that reaches them.
 */
#include "worker/emu/ptx_decode.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/buf.h"

#define PARAM_BYTES_MAX 32764u /* what CUDA allows a kernel altogether */

enum gk_status ptx_grow(void *array_pointer, uint32_t count, uint32_t *capacity, size_t size,
                        struct gk_err *err)
{
    void *old, *grown;
    uint32_t wanted;

    if (count < *capacity) {
        return GK_OK;
    }
    wanted = *capacity ? *capacity * 2 : 16;
    memcpy(&old, array_pointer, sizeof(old));
    grown = realloc(old, wanted * size);
    if (!grown) {
        return gk_fail(err, GK_NOMEM, "table of %u PTX elements", wanted);
    }
    memset((char *)grown + *capacity * size, 0, (wanted - *capacity) * size);
    memcpy(array_pointer, &grown, sizeof(grown));
    *capacity = wanted;
    return GK_OK;
}

enum gk_status ptx_next(struct ptx_parser *parser)
{
    return ptx_lexer_next(&parser->lexer, parser->err);
}

enum gk_status ptx_unexpected(struct ptx_parser *parser, const char *wanted)
{
    const struct ptx_token *token = &parser->lexer.token;

    return gk_fail(parser->err, GK_PARSE, "PTX line %u: found '%.*s' where %s is expected",
                   token->line, (int)(token->size > 60 ? 60 : token->size), token->text, wanted);
}

bool ptx_accept(struct ptx_parser *parser, const char *text, enum gk_status *status)
{
    if (*status != GK_OK || !ptx_token_is(&parser->lexer.token, text)) {
        return false;
    }
    *status = ptx_next(parser);
    return *status == GK_OK;
}

enum gk_status ptx_want(struct ptx_parser *parser, const char *text)
{
    return ptx_token_is(&parser->lexer.token, text) ? ptx_next(parser)
                                                    : ptx_unexpected(parser, text);
}

enum gk_status ptx_take_name(struct ptx_parser *parser, char **name_out)
{
    const struct ptx_token *token = &parser->lexer.token;

    if (token->kind != PTX_TOKEN_WORD) {
        return ptx_unexpected(parser, "a name");
    }
    *name_out = gk_strndup(token->text, token->size);
    if (!*name_out) {
        return gk_fail(parser->err, GK_NOMEM, "a PTX name");
    }
    return ptx_next(parser);
}

enum gk_status ptx_take_int(struct ptx_parser *parser, uint64_t *value_out)
{
    enum gk_status status = GK_OK;
    bool negative = ptx_accept(parser, "-", &status);

    if (status != GK_OK) {
        return status;
    }
    if (parser->lexer.token.kind != PTX_TOKEN_INT) {
        return ptx_unexpected(parser, "an integer");
    }
    *value_out = negative ? 0 - parser->lexer.token.value : parser->lexer.token.value;
    return ptx_next(parser);
}

uint8_t ptx_type_of(const struct ptx_token *token)
{
    struct emu_insn probe = {0};
    char name[16];

    if (token->kind != PTX_TOKEN_WORD || token->size < 2 || token->size > sizeof(name) ||
        token->text[0] != '.') {
        return PTX_NONE;
    }
    memcpy(name, token->text + 1, token->size - 1);
    name[token->size - 1] = 0;
    ptx_modifier_apply(&probe, "", name);
    return probe.type;
}

const struct ptx_function *ptx_function_find(const struct ptx_parser *parser, const char *name)
{
    const struct ptx_function *found = NULL;

    for (uint32_t i = 0; i < parser->function_count; i++) {
        if (strcmp(parser->functions[i].name, name) == 0) {
            found = &parser->functions[i];
            if (found->has_body) {
                break; /* a prototype may come first */
            }
        }
    }
    return found;
}

const struct ptx_variable *ptx_variable_find(const struct ptx_parser *parser, const char *name)
{
    for (uint32_t i = 0; i < parser->variable_count; i++) {
        if (strcmp(parser->variables[i].name, name) == 0) {
            return &parser->variables[i];
        }
    }
    return NULL;
}

/* ------------------------------------------------------------------ declarators */

enum gk_status ptx_take_declarator(struct ptx_parser *parser, struct ptx_variable *out)
{
    enum gk_status status = GK_OK;
    uint64_t elements = 1, value = 0, align = 0, vector = 1;
    uint8_t type;
    bool unsized = false;

    while (status == GK_OK) {
        if (ptx_accept(parser, ".align", &status)) {
            status = ptx_take_int(parser, &align);
        } else if (ptx_accept(parser, ".v2", &status)) {
            vector = 2;
        } else if (ptx_accept(parser, ".v4", &status)) {
            vector = 4;
        } else if (ptx_accept(parser, ".ptr", &status)) {
            (void)(ptx_accept(parser, ".global", &status) ||
                   ptx_accept(parser, ".shared", &status) ||
                   ptx_accept(parser, ".const", &status) || ptx_accept(parser, ".local", &status));
            if (ptx_accept(parser, ".align", &status)) { /* of the pointee: says nothing here */
                status = ptx_take_int(parser, &value);
            }
        } else if (ptx_accept(parser, ".attribute", &status)) {
            while (status == GK_OK && !ptx_token_is(&parser->lexer.token, ")")) {
                status = ptx_next(parser);
            }
            status = status == GK_OK ? ptx_next(parser) : status;
        } else if ((type = ptx_type_of(&parser->lexer.token)) != PTX_NONE) {
            value = ptx_type_bytes(type);
            out->bytes = value;
            status = ptx_next(parser);
        } else {
            break;
        }
    }
    if (status == GK_OK && !out->bytes) {
        return ptx_unexpected(parser, "a type");
    }
    out->align = align ? (uint32_t)align : (uint32_t)(out->bytes * vector);
    if (status == GK_OK) {
        status = ptx_take_name(parser, &out->name);
    }
    while (ptx_accept(parser, "[", &status)) {
        if (ptx_accept(parser, "]", &status)) {
            unsized = true;
            continue;
        }
        status = ptx_take_int(parser, &value);
        elements *= value;
        status = status == GK_OK ? ptx_want(parser, "]") : status;
    }
    out->bytes = unsized ? 0 : out->bytes * vector * elements;
    return status;
}

/* ------------------------------------------------------------------ initialisers */

static void put_bytes(struct emu_alloc *alloc, uint64_t offset, uint64_t value, uint32_t bytes)
{
    if (offset + bytes <= alloc->size) {
        memcpy(alloc->bytes + offset, &value, bytes);
    }
}

static enum gk_status initialiser_symbol(struct ptx_parser *parser, struct emu_alloc *alloc,
                                         uint64_t offset)
{
    struct ptx_fixup fixup = {.alloc = alloc, .offset = offset, .line = parser->lexer.token.line};
    enum gk_status status = GK_OK;
    bool generic = ptx_accept(parser, "generic", &status);

    if (generic) {
        status = status == GK_OK ? ptx_want(parser, "(") : status;
    }
    status = status == GK_OK ? ptx_take_name(parser, &fixup.name) : status;
    if (status == GK_OK && generic) {
        status = ptx_want(parser, ")");
    }
    if (ptx_accept(parser, "+", &status)) {
        status = ptx_take_int(parser, &fixup.addend);
    }
    if (status == GK_OK) {
        status = ptx_grow(&parser->fixups, parser->fixup_count, &parser->fixup_capacity,
                          sizeof(*parser->fixups), parser->err);
    }
    if (status != GK_OK) {
        free(fixup.name);
        return status;
    }
    parser->fixups[parser->fixup_count++] = fixup;
    return GK_OK;
}

static enum gk_status take_initialiser(struct ptx_parser *parser, struct emu_alloc *alloc,
                                       uint32_t element_bytes)
{
    enum gk_status status = GK_OK;
    uint64_t offset = 0;
    int depth = 0;

    do {
        const struct ptx_token *token = &parser->lexer.token;
        bool negative = false;

        if (ptx_accept(parser, "{", &status)) {
            depth++;
            continue;
        }
        if (ptx_accept(parser, "}", &status)) {
            depth--;
            continue;
        }
        if (ptx_accept(parser, ",", &status)) {
            continue;
        }
        negative = ptx_accept(parser, "-", &status);
        if (status != GK_OK) {
            break;
        }
        if (token->kind == PTX_TOKEN_INT) {
            put_bytes(alloc, offset, negative ? 0 - token->value : token->value, element_bytes);
            status = ptx_next(parser);
        } else if (token->kind == PTX_TOKEN_F32 || token->kind == PTX_TOKEN_F64) {
            put_bytes(alloc, offset, token->value, token->kind == PTX_TOKEN_F32 ? 4 : 8);
            status = ptx_next(parser);
        } else if (token->kind == PTX_TOKEN_WORD) {
            status = initialiser_symbol(parser, alloc, offset);
        } else {
            status = ptx_unexpected(parser, "an initial value");
        }
        offset += element_bytes;
    } while (status == GK_OK && depth > 0);
    return status;
}

static enum gk_status apply_fixups(struct ptx_parser *parser)
{
    for (uint32_t i = 0; i < parser->fixup_count; i++) {
        const struct ptx_fixup *fixup = &parser->fixups[i];
        const struct ptx_variable *variable = ptx_variable_find(parser, fixup->name);

        if (!variable || !variable->alloc) {
            return gk_fail(parser->err, GK_UNSUPPORTED,
                           "PTX line %u: the initial value '%s' is not "
                           "the address of a .global or .const variable",
                           fixup->line, fixup->name);
        }
        put_bytes(fixup->alloc, fixup->offset, variable->alloc->address + fixup->addend, 8);
    }
    return GK_OK;
}

/* ------------------------------------------------------------------ variables */

static enum gk_status place_variable(struct ptx_parser *parser, struct ptx_variable *variable,
                                     uint32_t element_bytes)
{
    struct emu_memory *memory = &parser->module->emu->memory;
    enum gk_status status = emu_memory_alloc(memory, variable->name, variable->bytes,
                                             variable->align, &variable->alloc, parser->err);

    if (status != GK_OK) {
        return status;
    }
    variable->alloc->all_written = true; /* without an initial value it is zero, as CUDA says */
    variable->alloc->is_const = variable->space == EMU_CONST;
    if (ptx_accept(parser, "=", &status)) {
        status = take_initialiser(parser, variable->alloc, element_bytes);
    }
    return status;
}

static enum gk_status take_variable(struct ptx_parser *parser, enum emu_space space, bool external)
{
    struct ptx_variable variable = {.space = space, .external = external};
    struct ptx_lexer probe = parser->lexer;
    uint32_t element = 1;
    enum gk_status status;

    /* The element's size is needed for the initialiser; the declarator keeps only the total. */
    while (probe.token.kind == PTX_TOKEN_WORD && probe.token.text[0] == '.') {
        uint8_t type = ptx_type_of(&probe.token);

        if (type) {
            element = ptx_type_bytes(type);
        }
        if (ptx_lexer_next(&probe, NULL) != GK_OK) {
            break;
        }
        if (probe.token.kind == PTX_TOKEN_INT && ptx_lexer_next(&probe, NULL) != GK_OK) {
            break;
        }
    }
    status = ptx_take_declarator(parser, &variable);
    if (status == GK_OK && (space == EMU_GLOBAL || space == EMU_CONST)) {
        if (external) {
            status = gk_fail(parser->err, GK_UNSUPPORTED,
                             "PTX line %u: variable '%s' is declared "
                             "extern and defined nowhere",
                             parser->lexer.token.line, variable.name);
        } else {
            status = place_variable(parser, &variable, element);
        }
    }
    if (status == GK_OK) {
        status = ptx_want(parser, ";");
    }
    if (status == GK_OK) {
        status = ptx_grow(&parser->variables, parser->variable_count, &parser->variable_capacity,
                          sizeof(*parser->variables), parser->err);
    }
    if (status != GK_OK) {
        free(variable.name);
        return status;
    }
    parser->variables[parser->variable_count++] = variable;
    return GK_OK;
}

/* ------------------------------------------------------------------ function headers */

static enum gk_status take_params(struct ptx_parser *parser, struct ptx_param_decl **params,
                                  uint32_t *count)
{
    enum gk_status status = ptx_want(parser, "(");
    uint32_t capacity = 0;

    while (status == GK_OK && !ptx_accept(parser, ")", &status)) {
        struct ptx_variable variable = {0};

        if (ptx_accept(parser, ",", &status)) {
            continue;
        }
        if (!ptx_accept(parser, ".param", &status)) {
            return status != GK_OK ? status
                                   : ptx_unexpected(parser, ".param (registers as "
                                                            "parameters are not supported)");
        }
        status = ptx_take_declarator(parser, &variable);
        if (status == GK_OK && variable.bytes > PARAM_BYTES_MAX) {
            status = gk_fail(parser->err, GK_LIMIT,
                             "PTX line %u: parameter '%s' has more than %u "
                             "bytes",
                             parser->lexer.token.line, variable.name, PARAM_BYTES_MAX);
        }
        if (status == GK_OK) {
            status = ptx_grow(params, *count, &capacity, sizeof(**params), parser->err);
        }
        if (status != GK_OK) {
            free(variable.name);
            return status;
        }
        (*params)[(*count)++] = (struct ptx_param_decl){
            .name = variable.name, .bytes = (uint32_t)variable.bytes, .align = variable.align};
    }
    return status;
}

static enum gk_status take_dims(struct ptx_parser *parser, uint32_t dims[3])
{
    enum gk_status status = GK_OK;
    int at = 0;

    dims[0] = dims[1] = dims[2] = 1;
    do {
        uint64_t value = 0;

        status = ptx_take_int(parser, &value);
        if (status == GK_OK && at < 3) {
            dims[at++] = (uint32_t)value;
        }
    } while (ptx_accept(parser, ",", &status));
    return status;
}

static enum gk_status take_performance_directives(struct ptx_parser *parser,
                                                  struct ptx_function *function)
{
    enum gk_status status = GK_OK;
    uint32_t ignored[3];

    while (status == GK_OK) {
        if (ptx_accept(parser, ".maxntid", &status)) {
            status = take_dims(parser, function->maxntid);
        } else if (ptx_accept(parser, ".reqntid", &status)) {
            status = take_dims(parser, function->reqntid);
        } else if (ptx_accept(parser, ".minnctapersm", &status)) {
            status = take_dims(parser, function->minnctapersm);
        } else if (ptx_accept(parser, ".maxnreg", &status)) {
            status = take_dims(parser, function->maxnreg);
        } else if (ptx_accept(parser, ".maxnctapersm", &status)) {
            status = take_dims(parser, ignored); /* only ptxas is told by it */
        } else if (ptx_accept(parser, ".noreturn", &status)) {
            continue;
        } else if (ptx_accept(parser, ".pragma", &status)) {
            status = ptx_next(parser); /* the string */
            status = status == GK_OK ? ptx_want(parser, ";") : status;
        } else {
            break;
        }
    }
    return status;
}

static enum gk_status skip_braces(struct ptx_parser *parser)
{
    enum gk_status status = GK_OK;
    uint32_t first = parser->lexer.token.line;
    int depth = 0;

    do {
        if (ptx_token_is(&parser->lexer.token, "{")) {
            depth++;
        } else if (ptx_token_is(&parser->lexer.token, "}")) {
            depth--;
        } else if (parser->lexer.token.kind == PTX_TOKEN_END) {
            return gk_fail(parser->err, GK_PARSE, "PTX line %u: the brace is never closed", first);
        }
        status = ptx_next(parser);
    } while (status == GK_OK && depth > 0);
    return status;
}

static enum gk_status take_function(struct ptx_parser *parser, bool entry)
{
    struct ptx_function *function;
    struct ptx_param_decl *rets = NULL;
    uint32_t ret_count = 0;
    enum gk_status status =
        ptx_grow(&parser->functions, parser->function_count, &parser->function_capacity,
                 sizeof(*parser->functions), parser->err);

    if (status != GK_OK) {
        return status;
    }
    function = &parser->functions[parser->function_count];
    *function = (struct ptx_function){.entry = entry};
    parser->function_count++; /* also when what follows fails: it is freed with the others */
    if (!entry && ptx_token_is(&parser->lexer.token, "(")) {
        status = take_params(parser, &rets, &ret_count);
        if (ret_count == 1) {
            function->has_ret = true;
            function->ret = rets[0];
        } else if (status == GK_OK) {
            status = gk_fail(parser->err, GK_UNSUPPORTED,
                             "PTX line %u: a function with %u return "
                             "values",
                             parser->lexer.token.line, ret_count);
        }
        for (uint32_t i = 0; ret_count != 1 && i < ret_count; i++) {
            free(rets[i].name);
        }
        free(rets);
    }
    status = status == GK_OK ? ptx_take_name(parser, &function->name) : status;
    if (status != GK_OK) {
        return status;
    }
    if (ptx_token_is(&parser->lexer.token, "(")) {
        status = take_params(parser, &function->params, &function->param_count);
    }
    status = status == GK_OK ? take_performance_directives(parser, function) : status;
    if (status != GK_OK || ptx_accept(parser, ";", &status)) {
        return status;
    }
    if (!ptx_token_is(&parser->lexer.token, "{")) {
        return ptx_unexpected(parser, "the body of a function");
    }
    function->has_body = true;
    function->body = parser->lexer;
    return skip_braces(parser);
}

/* ------------------------------------------------------------------ the module */

static enum gk_status take_file(struct ptx_parser *parser)
{
    struct gk_emu_module *module = parser->module;
    uint64_t index = 0;
    enum gk_status status = ptx_take_int(parser, &index);

    if (status != GK_OK) {
        return status;
    }
    if (parser->lexer.token.kind != PTX_TOKEN_STRING || index < 1 || index > 4096) {
        return ptx_unexpected(parser, "a file index from 1 to 4096 and a file name");
    }
    if (index > module->file_count) {
        char **grown = realloc(module->files, index * sizeof(*grown));

        if (!grown) {
            return gk_fail(parser->err, GK_NOMEM, "list of PTX files");
        }
        memset(grown + module->file_count, 0, (index - module->file_count) * sizeof(*grown));
        module->files = grown;
        module->file_count = (uint32_t)index;
    }
    free(module->files[index - 1]);
    module->files[index - 1] = gk_strndup(parser->lexer.token.text, parser->lexer.token.size);
    status = ptx_next(parser);
    while (ptx_accept(parser, ",", &status)) { /* time stamp and size */
        status = ptx_next(parser);
    }
    return status;
}

static enum gk_status skip_line(struct ptx_parser *parser)
{
    uint32_t line = parser->lexer.token.line;
    enum gk_status status = GK_OK;

    while (status == GK_OK && parser->lexer.token.line == line &&
           parser->lexer.token.kind != PTX_TOKEN_END) {
        status = ptx_next(parser);
    }
    return status;
}

static enum gk_status take_module_statement(struct ptx_parser *parser)
{
    static const char *const SPACES[] = {".global", ".const", ".shared"};
    static const enum emu_space SPACE[] = {EMU_GLOBAL, EMU_CONST, EMU_SHARED};
    enum gk_status status = GK_OK;
    bool external = false;

    for (;;) {
        if (ptx_accept(parser, ".extern", &status)) {
            external = true;
        } else if (!ptx_accept(parser, ".visible", &status) &&
                   !ptx_accept(parser, ".weak", &status) &&
                   !ptx_accept(parser, ".common", &status)) {
            break;
        }
    }
    if (ptx_accept(parser, ".entry", &status)) {
        return take_function(parser, true);
    }
    if (ptx_accept(parser, ".func", &status)) {
        return take_function(parser, false);
    }
    for (size_t i = 0; i < GK_ARRAY_COUNT(SPACES); i++) {
        if (ptx_accept(parser, SPACES[i], &status)) {
            return status == GK_OK ? take_variable(parser, SPACE[i], external) : status;
        }
    }
    if (ptx_accept(parser, ".file", &status)) {
        return take_file(parser);
    }
    if (ptx_accept(parser, ".section", &status)) {
        status = ptx_next(parser);
        return status == GK_OK ? skip_braces(parser) : status;
    }
    if (ptx_token_is(&parser->lexer.token, ".version") ||
        ptx_token_is(&parser->lexer.token, ".target") ||
        ptx_token_is(&parser->lexer.token, ".pragma")) {
        return skip_line(parser);
    }
    if (ptx_accept(parser, ".address_size", &status)) {
        uint64_t bits = 0;

        status = ptx_take_int(parser, &bits);
        return status == GK_OK && bits != 64
                   ? gk_fail(parser->err, GK_UNSUPPORTED,
                             "PTX .address_size %" PRIu64 ", only 64 is supported", bits)
                   : status;
    }
    return status != GK_OK ? status : ptx_unexpected(parser, "a PTX directive");
}

static enum gk_status publish_symbols(struct ptx_parser *parser)
{
    struct gk_emu_module *module = parser->module;

    module->symbols = calloc(parser->variable_count + 1, sizeof(*module->symbols));
    if (!module->symbols) {
        return gk_fail(parser->err, GK_NOMEM, "symbols of a module");
    }
    for (uint32_t i = 0; i < parser->variable_count; i++) {
        struct ptx_variable *variable = &parser->variables[i];

        if (variable->alloc) {
            struct emu_symbol *symbol = &module->symbols[module->symbol_count++];

            symbol->name = gk_strdup(variable->name);
            symbol->alloc = variable->alloc;
            symbol->bytes = variable->bytes;
            if (!symbol->name) {
                return gk_fail(parser->err, GK_NOMEM, "name of a symbol");
            }
        }
    }
    return GK_OK;
}

static void parser_fini(struct ptx_parser *parser)
{
    for (uint32_t i = 0; i < parser->function_count; i++) {
        struct ptx_function *function = &parser->functions[i];

        for (uint32_t p = 0; p < function->param_count; p++) {
            free(function->params[p].name);
        }
        free(function->params);
        free(function->ret.name);
        free(function->name);
    }
    for (uint32_t i = 0; i < parser->variable_count; i++) {
        free(parser->variables[i].name);
    }
    for (uint32_t i = 0; i < parser->fixup_count; i++) {
        free(parser->fixups[i].name);
    }
    free(parser->functions);
    free(parser->variables);
    free(parser->fixups);
}

static enum gk_status decode_entries(struct ptx_parser *parser)
{
    struct gk_emu_module *module = parser->module;
    enum gk_status status = GK_OK;

    module->kernels = calloc(parser->function_count + 1, sizeof(*module->kernels));
    if (!module->kernels) {
        return gk_fail(parser->err, GK_NOMEM, "kernels of a module");
    }
    for (uint32_t i = 0; status == GK_OK && i < parser->function_count; i++) {
        if (parser->functions[i].entry && parser->functions[i].has_body) {
            status = ptx_kernel_decode(parser, &parser->functions[i],
                                       &module->kernels[module->kernel_count]);
            module->kernel_count += status == GK_OK;
        }
    }
    return status;
}

enum gk_status ptx_module_decode(struct gk_emu_module *module, struct gk_err *err)
{
    struct ptx_parser parser = {.module = module, .err = err};
    enum gk_status status = ptx_lexer_init(&parser.lexer, module->text, strlen(module->text), err);

    while (status == GK_OK && parser.lexer.token.kind != PTX_TOKEN_END) {
        status = take_module_statement(&parser);
    }
    if (status == GK_OK) {
        status = apply_fixups(&parser);
    }
    /* Symbols are published even after an error, so that unloading frees what was placed. */
    if (publish_symbols(&parser) != GK_OK && status == GK_OK) {
        status = GK_NOMEM;
    }
    if (status == GK_OK) {
        status = decode_entries(&parser);
    }
    parser_fini(&parser);
    return status;
}
