// The preface that every proxy gets alike: PROXY protocol v2 with the sidecar's TLVs and, for HAProxy and Envoy, which
// look for a name there, the identity once more as PP2_TYPE_AUTHORITY. Each skips the TLVs that it doesn't know.
#ifndef PREFACE_H
#define PREFACE_H

#include <stdbool.h>
#include <stddef.h>

#define PP2_SIGNATURE "\r\n\r\n\0\r\nQUIT\n"
#define PP2_SIGNATURE_LENGTH 12
#define PP2_HEADER_LENGTH 16
#define PP2_TYPE_AUTHORITY 0x02
#define TYPE_IDENTITY 0xE5
#define TYPE_GENERATION 0xE6
#define TYPE_INSTANCE 0xE7
#define TYPE_ANSWER 0xEB
#define LONGEST_PREFACE 1024

struct claim {
    const char *identity;
    const char *generation; // NULL: not claimed
    const char *instance;   // NULL: not claimed
    bool wants_answer;
};

struct preface {
    unsigned char bytes[LONGEST_PREFACE];
    size_t length;
};

void preface_write(struct preface *preface, const struct claim *claim);

// How many bytes follow the 16 of a PROXY v2 header; -1 where these aren't such a header.
int header_rest(const unsigned char *header);

// The value of the TLV of this type among `length` bytes of TLVs, its length in `value_length`; NULL: there is none.
const unsigned char *tlv_find(const unsigned char *tlvs, size_t length, unsigned char type, size_t *value_length);

// How many bytes of addresses stand before the TLVs, for the byte 13 of a header.
size_t address_length(unsigned char family);

#endif
