/* Converts the entries of a search to Python objects in time that is linear in the size of the answer.
 *
 * python-ldap searches for every attribute from the start of the entry (ldap_get_values_len in its message.c),
 * which takes a fifth of a large search. This reads each entry once, as libldap's ldap_get_attribute_ber is meant to be
 * used. `streaming.py` says when it does; without this module python-ldap does everything.
 *
 * libldap is the one that python-ldap uses, found in it at run time: another copy must never see its handles. So the
 * module is linked to nothing, and with Python's stable interface one build serves every version of both.
 */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>

#include <dlfcn.h>
#include <lber.h>
#include <ldap.h>
#include <string.h>

/* python-ldap's LDAPObject.h, of which nothing is installed; `attach` compares the size. */
typedef struct {
    PyObject_HEAD
    LDAP *ldap;
    PyThreadState *save;
    int valid;
} Connection;

#define LIBLDAP(use) \
    use(ldap_result) use(ldap_first_message) use(ldap_next_message) use(ldap_msgtype) use(ldap_msgfree) \
    use(ldap_get_dn_ber) use(ldap_get_attribute_ber) use(ldap_parse_result) use(ldap_get_option) \
    use(ldap_err2string) use(ldap_controls_free) use(ldap_memfree) use(ber_free)

#define DECLARE(name) static __typeof__(name) *lib_##name;
LIBLDAP(DECLARE)

/* The attribute names seen in one answer: most entries have the same ones in the same order. */
#define MOST_NAMES 64

typedef struct {
    PyObject *text;
    const char *octets;
    Py_ssize_t size;
} Name;

typedef struct {
    Name known[MOST_NAMES];
    int count;
    int next; /* the index at which to look for the next name first */
} Names;

static void forget(Names *names)
{
    for (int i = 0; i < names->count; i++)
        Py_DECREF(names->known[i].text);
}

/* A new reference. */
static PyObject *name_of(Names *names, const struct berval *octets)
{
    Py_ssize_t size = (Py_ssize_t)octets->bv_len;
    for (int i = 0; i < names->count; i++) {
        int at = (names->next + i) % names->count;
        Name *name = &names->known[at];
        if (name->size == size && memcmp(name->octets, octets->bv_val, size) == 0) {
            names->next = at + 1;
            return Py_NewRef(name->text);
        }
    }
    PyObject *text = PyUnicode_FromStringAndSize(octets->bv_val, size);
    if (text != NULL && names->count < MOST_NAMES) {
        Name *name = &names->known[names->count];
        name->octets = PyUnicode_AsUTF8AndSize(text, &name->size);
        if (name->octets == NULL) {
            Py_DECREF(text);
            return NULL;
        }
        name->text = Py_NewRef(text);
        names->next = ++names->count;
    }
    return text;
}

static PyObject *octets_of(const struct berval *value)
{
    return PyBytes_FromStringAndSize(value->bv_val, (Py_ssize_t)value->bv_len);
}

/* Adds values to a list; 0 or -1 with an exception. */
static int append_values(PyObject *list, const struct berval *values)
{
    for (; values != NULL && values->bv_val != NULL; values++) {
        PyObject *value = octets_of(values);
        int failed = value == NULL || PyList_Append(list, value) < 0;
        Py_XDECREF(value);
        if (failed)
            return -1;
    }
    return 0;
}

/* Adds an attribute to those of an entry; 0 or -1 with an exception. */
static int add_attribute(PyObject *attributes, Names *names, const struct berval *type, const struct berval *values)
{
    PyObject *name = name_of(names, type);
    if (name == NULL)
        return -1;
    int failed;
    PyObject *list = PyDict_GetItemWithError(attributes, name); /* borrowed; a server may send an attribute in two parts */
    if (list != NULL) {
        failed = append_values(list, values);
    } else if (PyErr_Occurred()) {
        failed = -1;
    } else {
        list = PyList_New(0);
        failed = list == NULL || append_values(list, values) < 0 || PyDict_SetItem(attributes, name, list) < 0;
        Py_XDECREF(list);
    }
    Py_DECREF(name);
    return failed ? -1 : 0;
}

/* (dn, {name: [value, …]}), or NULL with an exception. */
static PyObject *entry_of(LDAP *ldap, LDAPMessage *message, Names *names)
{
    BerElement *ber = NULL;
    struct berval dn;
    if (lib_ldap_get_dn_ber(ldap, message, &ber, &dn) != LDAP_SUCCESS) {
        PyErr_SetString(PyExc_ValueError, "an entry cannot be decoded");
        return NULL;
    }
    PyObject *entry = NULL;
    PyObject *attributes = PyDict_New();
    int failed = attributes == NULL;
    names->next = 0;
    while (!failed) {
        struct berval type = {0, NULL};
        struct berval *values = NULL;
        if (lib_ldap_get_attribute_ber(ldap, message, ber, &type, &values) != LDAP_SUCCESS) {
            PyErr_SetString(PyExc_ValueError, "an attribute cannot be decoded");
            failed = 1;
        } else if (type.bv_val == NULL) {
            break;
        } else {
            failed = add_attribute(attributes, names, &type, values) < 0;
        }
        lib_ldap_memfree(values);
    }
    if (!failed)
        entry = Py_BuildValue("s#O", dn.bv_val, (Py_ssize_t)dn.bv_len, attributes);
    Py_XDECREF(attributes);
    lib_ber_free(ber, 0);
    return entry;
}

/* [(type, is critical, octets or None), …], or NULL with an exception. */
static PyObject *controls_of(LDAPControl **controls)
{
    PyObject *list = PyList_New(0);
    for (; list != NULL && controls != NULL && *controls != NULL; controls++) {
        const LDAPControl *control = *controls;
        PyObject *found = Py_BuildValue("(sNy#)", control->ldctl_oid, PyBool_FromLong(control->ldctl_iscritical),
                                        control->ldctl_value.bv_val, (Py_ssize_t)control->ldctl_value.bv_len);
        if (found == NULL || PyList_Append(list, found) < 0)
            Py_CLEAR(list);
        Py_XDECREF(found);
    }
    return list;
}

/* (code, its meaning, matched, text, controls) of the result that ends a search, or NULL with an exception. */
static PyObject *end_of(LDAP *ldap, LDAPMessage *message)
{
    int code = LDAP_SUCCESS;
    char *matched = NULL, *text = NULL;
    LDAPControl **controls = NULL;
    int failure = lib_ldap_parse_result(ldap, message, &code, &matched, &text, NULL, &controls, 0);
    if (failure != LDAP_SUCCESS)
        code = failure;
    PyObject *list = controls_of(controls), *end = NULL;
    if (list != NULL) /* servers may send text that is not UTF-8 */
        end = Py_BuildValue("(isyyN)", code, lib_ldap_err2string(code), matched ? matched : "", text ? text : "", list);
    lib_ldap_controls_free(controls);
    lib_ldap_memfree(matched);
    lib_ldap_memfree(text);
    return end;
}

static PyObject *connection_type;
static PyObject *decoding_error; /* the exception of python-ldap */

/* Iterates over the entries of the messages that arrived, and makes each when it is asked for. A caller that drops one
 * entry before it takes the next uses the same memory for all of them, which stays in the processor's cache: that saves
 * a fifth of the time of a page. */
typedef struct {
    PyObject_HEAD
    PyObject *connection;
    LDAPMessage *messages;
    LDAPMessage *next;
    Names names;
} Rows;

static PyTypeObject *rows_type;

static PyObject *undecodable(void)
{
    PyErr_Clear();
    PyObject *details = Py_BuildValue("{siss}", "result", LDAP_DECODING_ERROR, "desc", "Decoding error");
    if (details != NULL)
        PyErr_SetObject(decoding_error, details);
    Py_XDECREF(details);
    return NULL;
}

static PyObject *next_row(PyObject *self)
{
    Rows *rows = (Rows *)self;
    const Connection *connection = (const Connection *)rows->connection;
    while (rows->next != NULL) {
        if (!connection->valid) /* closed, and its handle freed */
            return undecodable();
        LDAPMessage *message = rows->next;
        rows->next = lib_ldap_next_message(connection->ldap, message);
        if (lib_ldap_msgtype(message) == LDAP_RES_SEARCH_ENTRY) {
            PyObject *entry = entry_of(connection->ldap, message, &rows->names);
            return entry != NULL || !PyErr_ExceptionMatches(PyExc_ValueError) ? entry : undecodable();
        } /* else the end, or a referral to another naming context, which is not followed */
    }
    return NULL;
}

static void free_rows(PyObject *self)
{
    Rows *rows = (Rows *)self;
    forget(&rows->names);
    lib_ldap_msgfree(rows->messages);
    Py_DECREF(rows->connection);
    PyObject_Free(self);
    Py_DECREF(rows_type);
}

static PyType_Slot rows_slots[] = {
    {Py_tp_iter, PyObject_SelfIter},
    {Py_tp_iternext, next_row},
    {Py_tp_dealloc, free_rows},
    {0, NULL},
};

static PyType_Spec rows_spec = {
    .name = "active_directory._answers.Rows",
    .basicsize = sizeof(Rows),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = rows_slots,
};

static PyObject *failed_with(int code)
{
    return Py_BuildValue("(()(isyy[]))", code, lib_ldap_err2string(code), "", "");
}

/* What `receive` returns for the messages that arrived, which it takes over, or NULL with an exception. */
static PyObject *answer_of(PyObject *connection, LDAPMessage *messages)
{
    LDAP *ldap = ((const Connection *)connection)->ldap;
    Rows *rows = PyObject_New(Rows, rows_type);
    if (rows == NULL) {
        lib_ldap_msgfree(messages);
        return NULL;
    }
    rows->connection = Py_NewRef(connection);
    rows->messages = messages;
    rows->next = lib_ldap_first_message(ldap, messages);
    rows->names.count = 0;
    PyObject *end = NULL;
    for (LDAPMessage *message = rows->next; message != NULL; message = lib_ldap_next_message(ldap, message))
        if (lib_ldap_msgtype(message) == LDAP_RES_SEARCH_RESULT) {
            end = end_of(ldap, message);
            break;
        }
    if (end == NULL && !PyErr_Occurred())
        end = Py_NewRef(Py_None);
    else if (end == NULL && PyErr_ExceptionMatches(PyExc_ValueError))
        undecodable();
    PyObject *answer = end == NULL ? NULL : PyTuple_Pack(2, (PyObject *)rows, end);
    Py_DECREF(rows);
    Py_XDECREF(end);
    return answer;
}

PyDoc_STRVAR(receive_doc,
"receive(connection, message, whole, seconds) -> (rows, end) or None\n\n"
"What comes next of the answer to a search, or all of it. `rows` iterates over (dn, {name: [value, ...]}) and makes\n"
"each when it is asked for. `end` is None until the search has ended, then (code, its meaning, matched name, text,\n"
"[(type, is critical, octets), ...]). None when nothing came in time.");

static PyObject *receive(PyObject *module, PyObject *args)
{
    PyObject *object;
    int message, whole;
    double seconds;
    if (!PyArg_ParseTuple(args, "Oipd:receive", &object, &message, &whole, &seconds))
        return NULL;
    if (connection_type == NULL || (PyObject *)Py_TYPE(object) != connection_type) {
        PyErr_SetString(PyExc_TypeError, "this is no connection of python-ldap, or nothing was attached");
        return NULL;
    }
    const Connection *connection = (const Connection *)object;
    if (!connection->valid)
        return failed_with(LDAP_SERVER_DOWN);
    LDAP *ldap = connection->ldap;
    struct timeval limit = {.tv_sec = (time_t)seconds};
    limit.tv_usec = (suseconds_t)((seconds - (double)limit.tv_sec) * 1e6);
    LDAPMessage *messages = NULL;
    int kind;
    Py_BEGIN_ALLOW_THREADS
    kind = lib_ldap_result(ldap, message, whole ? LDAP_MSG_ALL : LDAP_MSG_ONE, &limit, &messages);
    Py_END_ALLOW_THREADS
    if (kind == 0)
        Py_RETURN_NONE;
    if (kind < 0) {
        int code = LDAP_OTHER;
        lib_ldap_get_option(ldap, LDAP_OPT_RESULT_CODE, &code);
        /* The code may be that of an earlier answer, or of a notice of disconnection (RFC 4511 4.4.1). */
        return failed_with(code == LDAP_SUCCESS ? LDAP_SERVER_DOWN : code);
    }
    return answer_of(object, messages);
}

PyDoc_STRVAR(attach_doc,
"attach(path, type, undecodable)\n\n"
"Use the libldap of python-ldap, whose module `_ldap` was loaded from `path` and has connections of this type.\n"
"`undecodable` is raised for an entry that cannot be decoded.\n"
"Raises ImportError when they are not as they are known here.");

static PyObject *attach(PyObject *module, PyObject *args)
{
    const char *path;
    PyObject *type, *undecodable;
    if (!PyArg_ParseTuple(args, "sOO:attach", &path, &type, &undecodable))
        return NULL;
    PyObject *size = PyObject_GetAttrString(type, "__basicsize__");
    if (size == NULL)
        return NULL;
    int is_known = PyLong_AsSsize_t(size) == (Py_ssize_t)sizeof(Connection);
    Py_DECREF(size);
    void *loaded = is_known ? dlopen(path, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    int is_whole = loaded != NULL;
#define FIND(name) \
    if (is_whole) { \
        *(void **)&lib_##name = dlsym(loaded, #name); \
        is_whole = lib_##name != NULL; \
    }
    LIBLDAP(FIND)
    if (!is_whole) {
        PyErr_SetString(PyExc_ImportError, "this python-ldap is not the one that is known here");
        return NULL;
    }
    Py_XDECREF(connection_type);
    connection_type = Py_NewRef(type);
    Py_XDECREF(decoding_error);
    decoding_error = Py_NewRef(undecodable);
    Py_RETURN_NONE;
}

PyObject *prepare(PyObject *module, PyObject *args); /* _json.c */
PyObject *fill(PyObject *module, PyObject *args);

static PyMethodDef methods[] = {
    {"attach", attach, METH_VARARGS, attach_doc},
    {"receive", receive, METH_VARARGS, receive_doc},
    {"prepare", prepare, METH_VARARGS, "prepare(parts) -> template: see _json.c"},
    {"fill", fill, METH_VARARGS, "fill(template, attributes, given) -> JSON, or None where Python has to make it"},
    {NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_answers",
    .m_size = -1,
    .m_methods = methods,
};

PyMODINIT_FUNC PyInit__answers(void)
{
    rows_type = (PyTypeObject *)PyType_FromSpec(&rows_spec);
    return rows_type == NULL ? NULL : PyModule_Create(&definition);
}
