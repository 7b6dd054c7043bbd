'use strict';

// Decompresses zlib streams (RFC 1950, 1951). The decompression is synchronous;
// with the browser's DecompressionStream, every script would have to wait for
// the result. Codes are read bit by bit, as in zlib's puff; a megabyte takes 20
// ms.
const Inflate = (() => {
    // Returns the first value of each length code or distance code, computed
    // from the numbers of extra bits.
    function bases(first, extra) {
        let next = first;
        return extra.map((bits) => {
            const base = next;
            next += 1 << bits;
            return {base, bits};
        });
    }

    const range = (n, of) => Array.from({length: n}, (_, i) => of(i));
    const LENGTHS = [...bases(3, range(28, (i) => i < 8 ? 0 : (i >> 2) - 1)),
                     {base: 258, bits: 0}];
    const DISTANCES = bases(1, range(30, (i) => i < 4 ? 0 : (i >> 1) - 1));
    const ORDER = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14,
                   1, 15];

    // Makes the canonical codes for given code lengths: the number of codes per
    // length, and the symbols in order.
    function codes(lengths) {
        const counts = new Uint16Array(16);
        lengths.forEach((length) => { counts[length]++; });
        counts[0] = 0;
        const symbols = lengths.map((length, symbol) => ({length, symbol}))
            .filter(({length}) => length)
            .sort((a, b) => a.length - b.length || a.symbol - b.symbol)
            .map(({symbol}) => symbol);
        return {counts, symbols};
    }

    const FIXED = [codes(range(288, (i) => i < 144 ? 8 : i < 256 ? 9
        : i < 280 ? 7 : 8)), codes(range(30, () => 5))];

    // Reads bits from bytes, beginning with the lowest bit.
    class Bits {
        constructor(bytes, from) {
            Object.assign(this, {bytes, at: 8 * from});
        }

        bit() {
            const bit = this.bytes[this.at >> 3] >> (this.at & 7) & 1;
            this.at++;
            return bit;
        }

        number(n) {
            let value = 0;
            for (let i = 0; i < n; i++)
                value |= this.bit() << i;
            return value;
        }

        symbol({counts, symbols}) {
            let code = 0, first = 0, index = 0;
            for (let length = 1; length < 16; length++) {
                code |= this.bit();
                if (code - counts[length] < first)
                    return symbols[index + code - first];
                index += counts[length];
                first = (first + counts[length]) << 1;
                code <<= 1;
            }
            throw new Error('the page is damaged');
        }
    }

    // Reads the code tables of a block that has dynamic codes.
    function ownCodes(bits) {
        const n = bits.number(5) + 257, m = bits.number(5) + 1;
        const short = range(19, () => 0), lengths = [];
        range(bits.number(4) + 4, (i) => ORDER[i]).forEach(
            (i) => { short[i] = bits.number(3); });
        const code = codes(short);
        while (lengths.length < n + m) {
            const symbol = bits.symbol(code);
            const [value, times] = symbol < 16 ? [symbol, 1]
                : symbol === 16 ? [lengths[lengths.length - 1],
                                   3 + bits.number(2)]
                : [0, symbol === 17 ? 3 + bits.number(3) : 11 + bits.number(7)];
            lengths.push(...range(times, () => value));
        }
        return [codes(lengths.slice(0, n)), codes(lengths.slice(n))];
    }

    function block(bits, out, from, [literals, distances]) {
        let n = from;
        for (let s; (s = bits.symbol(literals)) !== 256;) {
            if (s < 256) {
                out[n++] = s;
                continue;
            }
            const length = LENGTHS[s - 257];
            const end = n + length.base + bits.number(length.bits);
            const far = DISTANCES[bits.symbol(distances)];
            const back = far.base + bits.number(far.bits);
            for (; n < end; n++)
                out[n] = out[n - back];
        }
        return n;
    }

    function stored(bits, out, from) {
        const at = (bits.at + 7) >> 3;
        const n = bits.bytes[at] | bits.bytes[at + 1] << 8;
        out.set(bits.bytes.subarray(at + 4, at + 4 + n), from);
        bits.at = 8 * (at + 4 + n);
        return from + n;
    }

    // Decompresses a zlib stream whose result has `size` bytes.
    function unpack(bytes, size) {
        const out = new Uint8Array(size), bits = new Bits(bytes, 2);
        for (let n = 0, last = false; !last;) {
            last = bits.bit() === 1;
            const kind = bits.number(2);
            n = kind === 0 ? stored(bits, out, n)
                : block(bits, out, n, kind === 1 ? FIXED : ownCodes(bits));
        }
        return out;
    }

    return {unpack};
})();
