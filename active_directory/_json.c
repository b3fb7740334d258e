/* Fills templates of JSON with the values of an entry, in a third of the time that Python takes.
 *
 * `directory/shapes/record.py` makes the templates. Python is the specification, and makes what is unusual here: a value that
 * is no UTF-8, no plain number, no time of an ordinary day. Nothing is trusted that comes from the directory.
 */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>

#include <limits.h>
#include <string.h>

typedef struct {
    char *octets;
    size_t size, room;
} Out;

/* What became of a value: written, left to Python, or failed with an exception. */
typedef enum { DONE, UNUSUAL, FAILED } Result;

/* Makes room for so many octets more. */
static Result reserve(Out *out, size_t more)
{
    if (more > (size_t)PY_SSIZE_T_MAX / 4 - out->size) {
        PyErr_NoMemory();
        return FAILED;
    }
    size_t needed = out->size + more;
    if (needed > out->room) {
        size_t room = out->room > needed / 2 ? 2 * out->room : needed + 4096;
        char *octets = PyMem_Realloc(out->octets, room);
        if (octets == NULL) {
            PyErr_NoMemory();
            return FAILED;
        }
        out->octets = octets;
        out->room = room;
    }
    return DONE;
}

static Result put(Out *out, const char *octets, size_t size)
{
    if (reserve(out, size) != DONE)
        return FAILED;
    memcpy(out->octets + out->size, octets, size);
    out->size += size;
    return DONE;
}

#define PUT(out, literal) put(out, literal, sizeof(literal) - 1)

static const char HEX[] = "0123456789abcdef";

/* The length of the UTF-8 sequence at the start of these octets, or 0 (RFC 3629 section 4). */
static size_t sequence_of(const unsigned char *octets, size_t size)
{
    unsigned char first = octets[0];
    size_t length = first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 0;
    if (length == 0 || length > size)
        return 0;
    for (size_t i = 1; i < length; i++)
        if ((octets[i] & 0xC0) != 0x80)
            return 0;
    unsigned char second = octets[1];
    int is_wrong = (first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) ||
                   (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F);
    return is_wrong ? 0 : length;
}

static Result put_text(Out *out, const char *text, size_t size)
{
    if (size > (size_t)PY_SSIZE_T_MAX / 32) {
        PyErr_NoMemory();
        return FAILED;
    }
    if (reserve(out, 6 * size + 2) != DONE)
        return FAILED;
    const unsigned char *octets = (const unsigned char *)text;
    char *next = out->octets + out->size;
    *next++ = '"';
    for (size_t i = 0; i < size;) {
        unsigned char octet = octets[i];
        if (octet >= 0x80) {
            size_t length = sequence_of(octets + i, size - i);
            if (length == 0)
                return UNUSUAL;
            memcpy(next, octets + i, length);
            next += length;
            i += length;
            continue;
        }
        i++;
        if (octet >= 0x20 && octet != '"' && octet != '\\') {
            *next++ = (char)octet;
            continue;
        }
        static const char short_forms[0x20] = {['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r'};
        *next++ = '\\';
        if (octet >= 0x20) {
            *next++ = (char)octet;
        } else if (short_forms[octet] != 0) {
            *next++ = short_forms[octet];
        } else {
            memcpy(next, "u00", 3);
            next[3] = HEX[octet >> 4];
            next[4] = HEX[octet & 15];
            next += 5;
        }
    }
    *next++ = '"';
    out->size = (size_t)(next - out->octets);
    return DONE;
}

static Result put_base64(Out *out, const char *text, size_t size)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *octets = (const unsigned char *)text;
    if (size > (size_t)PY_SSIZE_T_MAX / 32) {
        PyErr_NoMemory();
        return FAILED;
    }
    if (reserve(out, (size + 2) / 3 * 4 + 2) != DONE)
        return FAILED;
    char *next = out->octets + out->size;
    *next++ = '"';
    for (size_t i = 0; i < size; i += 3) {
        size_t left = size - i;
        unsigned three = (unsigned)octets[i] << 16 | (left > 1 ? (unsigned)octets[i + 1] << 8 : 0) |
                         (left > 2 ? octets[i + 2] : 0);
        *next++ = digits[three >> 18];
        *next++ = digits[three >> 12 & 63];
        *next++ = left > 1 ? digits[three >> 6 & 63] : '=';
        *next++ = left > 2 ? digits[three & 63] : '=';
    }
    *next++ = '"';
    out->size = (size_t)(next - out->octets);
    return DONE;
}

static Result put_guid(Out *out, const char *octets, size_t size)
{
    static const int order[16] = {3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15};
    if (size != 16)
        return UNUSUAL;
    char text[38], *next = text;
    *next++ = '"';
    for (int i = 0; i < 16; i++) {
        unsigned char octet = (unsigned char)octets[order[i]];
        if (i == 4 || i == 6 || i == 8 || i == 10)
            *next++ = '-';
        *next++ = HEX[octet >> 4];
        *next++ = HEX[octet & 15];
    }
    *next = '"';
    return put(out, text, sizeof text);
}

/* Writes a number; snprintf takes ten times as long. Returns what follows it. */
static char *write_number(char *text, unsigned long long number, unsigned base)
{
    char digits[20], *first = digits + sizeof digits;
    do
        *--first = HEX[number % base];
    while ((number /= base) != 0);
    size_t count = (size_t)(digits + sizeof digits - first);
    memcpy(text, first, count);
    return text + count;
}

static Result put_sid(Out *out, const char *octets, size_t size)
{
    const unsigned char *sid = (const unsigned char *)octets;
    if (size < 8 || sid[0] != 1 || sid[1] > 15 || size != 8 + 4 * (size_t)sid[1] || sid[2] != 0 || sid[3] != 0)
        return UNUSUAL;
    char text[200] = "\"S-1-"; /* 5 + 10 + 15 × 11 + 1 at most */
    char *next = write_number(
        text + 5, (unsigned)sid[4] << 24 | (unsigned)sid[5] << 16 | (unsigned)sid[6] << 8 | sid[7], 10);
    for (const unsigned char *part = sid + 8; part < sid + size; part += 4) {
        *next++ = '-';
        next = write_number(
            next, (unsigned)part[3] << 24 | (unsigned)part[2] << 16 | (unsigned)part[1] << 8 | part[0], 10);
    }
    *next++ = '"';
    return put(out, text, (size_t)(next - text));
}

static int is_digits(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (text[i] < '0' || text[i] > '9')
            return 0;
    return size > 0;
}

static Result integer_of(const char *text, size_t size, long long *number)
{
    int is_negative = size > 0 && text[0] == '-';
    text += is_negative;
    size -= (size_t)is_negative;
    if (!is_digits(text, size) || size > 19 || (text[0] == '0' && size > 1))
        return UNUSUAL;
    unsigned long long found = 0; /* 19 digits fit */
    for (size_t i = 0; i < size; i++)
        found = found * 10 + (unsigned)(text[i] - '0');
    if (found > LLONG_MAX)
        return UNUSUAL;
    *number = is_negative ? -(long long)found : (long long)found;
    return DONE;
}

static int two_digits(const char *text)
{
    return (text[0] - '0') * 10 + (text[1] - '0');
}

static Result put_time(Out *out, const char *text, size_t size)
{
    static const int days[13] = {0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}; /* leap days are left to Python */
    if (size != 17 || !is_digits(text, 14) || memcmp(text + 14, ".0Z", 3) != 0 || text[0] == '0')
        return UNUSUAL;
    int month = two_digits(text + 4), day = two_digits(text + 6);
    if (month < 1 || month > 12 || day < 1 || day > days[month])
        return UNUSUAL;
    if (two_digits(text + 8) > 23 || two_digits(text + 10) > 59 || two_digits(text + 12) > 59)
        return UNUSUAL;
    char made[] = "\"0000-00-00T00:00:00Z\"";
    memcpy(made + 1, text, 4);
    for (int i = 2; i < 7; i++)
        memcpy(made + 3 * i, text + 2 * i, 2);
    return put(out, made, sizeof made - 1);
}

static void put_digits(char *text, int count, long long number)
{
    for (; count > 0; number /= 10)
        text[--count] = (char)('0' + number % 10);
}

/* A FILETIME. `or_null`: null for what is no moment, which otherwise is "never" or the number. */
static Result put_filetime(Out *out, const char *text, size_t size, int or_null)
{
    long long filetime;
    if (integer_of(text, size, &filetime) != DONE)
        return UNUSUAL;
    int is_never = filetime == 0 || filetime == LLONG_MAX;
    long long days = filetime / 864000000000LL, ticks = filetime % 864000000000LL; /* since 1601-01-01 */
    if (is_never || filetime < 0 || days >= 3067671 /* 10000-01-01 */) {
        if (or_null)
            return PUT(out, "null");
        return is_never ? PUT(out, "\"never\"") : put_text(out, text, size);
    }
    /* Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", from 0000-03-01, with its years ending in February */
    long long day = days + 584694, era = day / 146097, of_era = day % 146097;
    long long year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    long long of_year = of_era - (365 * year + year / 4 - year / 100), moved = (5 * of_year + 2) / 153;
    long long month = moved < 10 ? moved + 3 : moved - 9, seconds = ticks / 10000000;
    char made[] = "\"0000-00-00T00:00:00.0000000Z\"";
    put_digits(made + 1, 4, year + era * 400 + (month <= 2));
    put_digits(made + 6, 2, month);
    put_digits(made + 9, 2, of_year - (153 * moved + 2) / 5 + 1);
    put_digits(made + 12, 2, seconds / 3600);
    put_digits(made + 15, 2, seconds / 60 % 60);
    put_digits(made + 18, 2, seconds % 60);
    put_digits(made + 21, 7, ticks % 10000000);
    size_t length = sizeof made - 3;
    while (made[length - 1] == '0')
        length--;
    if (made[length - 1] == '.')
        length--;
    made[length++] = 'Z';
    made[length++] = '"';
    return put(out, made, length);
}

static Result put_value(Out *out, char form, const char *octets, size_t size)
{
    long long number;
    char text[24] = "\"", *next;
    switch (form) {
    case 't':
        return put_text(out, octets, size);
    case 'b':
        return put_base64(out, octets, size);
    case 'g':
        return put_guid(out, octets, size);
    case 's':
        return put_sid(out, octets, size);
    case 'z':
        return put_time(out, octets, size);
    case 'f':
    case 'm':
        return put_filetime(out, octets, size, form == 'm');
    case 'x':
        if (integer_of(octets, size, &number) != DONE || number < 0)
            return UNUSUAL;
        next = write_number(text + 1, (unsigned long long)number, 16);
        *next++ = '"';
        return put(out, text, (size_t)(next - text));
    }
    PyErr_SetString(PyExc_ValueError, "there is no such form");
    return FAILED;
}

static Result put_octets(Out *out, char form, PyObject *value)
{
    char *octets;
    Py_ssize_t size;
    if (PyBytes_AsStringAndSize(value, &octets, &size) < 0)
        return FAILED;
    return put_value(out, form, octets, (size_t)size);
}

/* What Python decided: octets are JSON already. */
static Result put_given(Out *out, PyObject *given)
{
    if (given == Py_None)
        return PUT(out, "null");
    if (given == Py_True)
        return PUT(out, "true");
    if (given == Py_False)
        return PUT(out, "false");
    char *octets;
    Py_ssize_t size;
    if (PyUnicode_Check(given)) {
        const char *text = PyUnicode_AsUTF8AndSize(given, &size);
        if (text == NULL) { /* a lone surrogate */
            PyErr_Clear();
            return UNUSUAL;
        }
        return put_text(out, text, (size_t)size);
    }
    if (PyBytes_AsStringAndSize(given, &octets, &size) < 0)
        return FAILED;
    return put(out, octets, (size_t)size);
}


typedef struct {
    const char *literal; /* comes before the value */
    size_t size;
    char form;
    int all;        /* a list of all values, not the first one */
    PyObject *name; /* of the attribute */
    Py_ssize_t given;
} Part;

typedef struct {
    PyObject *source; /* holds what the parts point to */
    Py_ssize_t count;
    Part parts[];
} Template;

static const char TEMPLATE[] = "template of JSON";

static void free_template(PyObject *capsule)
{
    Template *template = PyCapsule_GetPointer(capsule, TEMPLATE);
    Py_XDECREF(template->source);
    PyMem_Free(template);
}

/* The function `prepare` of the module (_answers.pyi). */
PyObject *prepare(PyObject *module, PyObject *args)
{
    PyObject *source;
    if (!PyArg_ParseTuple(args, "O!:prepare", &PyTuple_Type, &source))
        return NULL;
    Py_ssize_t count = PyTuple_Size(source);
    Template *template = PyMem_Calloc(1, sizeof(Template) + (size_t)count * sizeof(Part));
    if (template == NULL)
        return PyErr_NoMemory();
    template->count = count;
    for (Py_ssize_t i = 0; i < count; i++) {
        Part *part = &template->parts[i];
        PyObject *given = PyTuple_GetItem(source, i); /* only tuples of immutable things keep pointers good */
        Py_ssize_t size;
        int form;
        if (!PyTuple_Check(given) || !PyArg_ParseTuple(given, "y#CUpn", &part->literal, &size, &form, &part->name,
                                                       &part->all, &part->given)) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_TypeError, "a part of a template is a tuple");
            PyMem_Free(template);
            return NULL;
        }
        part->size = (size_t)size;
        part->form = (char)form;
    }
    template->source = Py_NewRef(source);
    PyObject *capsule = PyCapsule_New(template, TEMPLATE, free_template);
    if (capsule == NULL) {
        Py_DECREF(source);
        PyMem_Free(template);
    }
    return capsule;
}

static Result put_part(Out *out, const Part *part, PyObject *attributes, PyObject *given)
{
    if (put(out, part->literal, part->size) != DONE)
        return FAILED;
    if (part->form == '-')
        return DONE;
    if (part->form == 'p') {
        PyObject *decided = PyTuple_GetItem(given, part->given);
        return decided == NULL ? FAILED : put_given(out, decided);
    }
    PyObject *values = PyDict_GetItemWithError(attributes, part->name); /* borrowed */
    if (values == NULL && PyErr_Occurred())
        return FAILED;
    Py_ssize_t count = values == NULL ? 0 : PyList_Size(values);
    if (count < 0)
        return FAILED;
    if (!part->all)
        return count == 0 ? PUT(out, "null") : put_octets(out, part->form, PyList_GetItem(values, 0));
    Result result = PUT(out, "[");
    for (Py_ssize_t i = 0; i < count && result == DONE; i++) {
        if (i > 0)
            result = PUT(out, ",");
        if (result == DONE)
            result = put_octets(out, part->form, PyList_GetItem(values, i));
    }
    return result == DONE ? PUT(out, "]") : result;
}

/* The function `fill` of the module (_answers.pyi). */
PyObject *fill(PyObject *module, PyObject *args)
{
    PyObject *capsule, *attributes, *given;
    if (!PyArg_ParseTuple(args, "OO!O!:fill", &capsule, &PyDict_Type, &attributes, &PyTuple_Type, &given))
        return NULL;
    const Template *template = PyCapsule_GetPointer(capsule, TEMPLATE);
    if (template == NULL)
        return NULL;
    Out out = {NULL, 0, 0};
    Result result = DONE;
    for (Py_ssize_t i = 0; i < template->count && result == DONE; i++)
        result = put_part(&out, &template->parts[i], attributes, given);
    PyObject *made = NULL;
    if (result == DONE)
        made = PyBytes_FromStringAndSize(out.octets, (Py_ssize_t)out.size);
    else if (result == UNUSUAL)
        made = Py_NewRef(Py_None);
    PyMem_Free(out.octets);
    return made;
}
