#include "preface.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void append(struct preface *preface, const void *bytes, size_t length)
{
    if (preface->length + length > sizeof preface->bytes) {
        fprintf(stderr, "the claim is too long for a preface of %d bytes\n", LONGEST_PREFACE);
        exit(2);
    }
    memcpy(preface->bytes + preface->length, bytes, length);
    preface->length += length;
}

static void append_tlv(struct preface *preface, unsigned char type, const char *value)
{
    size_t length = strlen(value);
    unsigned char head[3] = {type, length >> 8, length & 0xFF};
    append(preface, head, sizeof head);
    append(preface, value, length);
}

void preface_write(struct preface *preface, const struct claim *claim)
{
    static const unsigned char proxy_over_ipv4[4] = {0x21, 0x11, 0, 0};
    static const unsigned char addresses[12] = {127, 0, 0, 1, 127, 0, 0, 1, 0x30, 0x39, 0x01, 0xBB};

    preface->length = 0;
    append(preface, PP2_SIGNATURE, PP2_SIGNATURE_LENGTH);
    append(preface, proxy_over_ipv4, sizeof proxy_over_ipv4);
    append(preface, addresses, sizeof addresses);
    append_tlv(preface, PP2_TYPE_AUTHORITY, claim->identity);
    append_tlv(preface, TYPE_IDENTITY, claim->identity);
    if (claim->generation)
        append_tlv(preface, TYPE_GENERATION, claim->generation);
    if (claim->instance)
        append_tlv(preface, TYPE_INSTANCE, claim->instance);
    if (claim->wants_answer)
        append_tlv(preface, TYPE_ANSWER, "1");

    size_t rest = preface->length - PP2_HEADER_LENGTH;
    preface->bytes[14] = rest >> 8;
    preface->bytes[15] = rest & 0xFF;
}

int header_rest(const unsigned char *header)
{
    if (memcmp(header, PP2_SIGNATURE, PP2_SIGNATURE_LENGTH) || header[12] != 0x21)
        return -1;
    return header[14] << 8 | header[15];
}

const unsigned char *tlv_find(const unsigned char *tlvs, size_t length, unsigned char type, size_t *value_length)
{
    while (length >= 3) {
        size_t size = tlvs[1] << 8 | tlvs[2];
        if (size > length - 3)
            return NULL;
        if (tlvs[0] == type) {
            *value_length = size;
            return tlvs + 3;
        }
        tlvs += 3 + size;
        length -= 3 + size;
    }
    return NULL;
}

size_t address_length(unsigned char family)
{
    switch (family >> 4) {
    case 1:
        return 12;
    case 2:
        return 36;
    case 3:
        return 216;
    default:
        return 0;
    }
}
