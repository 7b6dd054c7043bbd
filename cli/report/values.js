'use strict';

// Float32 values as in run files, where one particular NaN means missing.
// Numbers are formatted like the output of `entropy-scan export`.
const Values = (() => {
    const MISSING = 0x7fc007a2;
    const QUIET_NAN = 0x7fc00000;

    function bytesOf(text) {
        const binary = atob(text);
        const bytes = new Uint8Array(binary.length);
        for (let i = 0; i < bytes.length; i++)
            bytes[i] = binary.charCodeAt(i);
        return bytes;
    }

    // Decodes little-endian float32 values from base64.
    const decode = (text) => wrap(bytesOf(text).buffer);

    // Makes two views of a buffer: as numbers and as bits.
    function wrap(buffer) {
        return {floats: new Float32Array(buffer),
                bits: new Uint32Array(buffer)};
    }

    function isMissing(array, i) {
        return array.bits[i] === MISSING;
    }

    // Splits a number such as "1.25e+2" into digits without trailing zeros,
    // exponent and sign.
    function parts(scientific) {
        const [mantissa, exponent] = scientific.split('e');
        const digits = mantissa.replace(/[-.]/g, '').replace(/(.)0+$/, '$1');
        return {digits, exponent: Number(exponent),
                sign: mantissa[0] === '-' ? '-' : ''};
    }

    function fixed({digits, exponent}) {
        if (exponent < 0)
            return '0.' + '0'.repeat(-exponent - 1) + digits;
        const whole = digits.slice(0, exponent + 1).padEnd(exponent + 1, '0');
        const rest = digits.slice(exponent + 1);
        return rest ? whole + '.' + rest : whole;
    }

    function scientific({digits, exponent}) {
        const rest = digits.slice(1);
        return digits[0] + (rest ? '.' + rest : '') + 'e' + exponent;
    }

    // Returns the number with the fewest digits that `same` accepts, in the shorter
    // of the two notations.
    function shortest(value, least, most, same) {
        let text;
        for (let n = least; n <= most; n++) {
            text = value.toExponential(n - 1);
            if (same(Number(text)))
                break;
        }
        const number = parts(text);
        if (Object.is(value, -0))
            number.sign = '-';
        const plain = fixed(number), power = scientific(number);
        return number.sign + (plain.length <= power.length ? plain : power);
    }

    function special(value) {
        return Number.isNaN(value) ? 'NaN' : value > 0 ? 'inf' : '-inf';
    }

    // Formats a finite number exactly, as float32 or double.
    function exact(value) {
        if (!Number.isFinite(value))
            return special(value);
        if (Math.fround(value) === value)
            return shortest(value, 1, 9, (x) => Math.fround(x) === value);
        return shortest(value, 1, 17, (x) => x === value);
    }

    // Formats element i of a series as export does.
    function text(array, i) {
        const bits = array.bits[i];
        if (bits === MISSING)
            return 'NA';
        if (Number.isNaN(array.floats[i]) && bits !== QUIET_NAN)
            return `NaN(0x${bits.toString(16).padStart(8, '0')})`;
        return exact(array.floats[i]);
    }

    // Formats a number for display: whole numbers in full, others with four
    // significant digits, like the table on the terminal.
    function short(value) {
        if (!Number.isFinite(value))
            return special(value);
        const size = Math.abs(value);
        const rounded = Number.isInteger(value) && size < 1e7
            ? value : Number(value.toPrecision(4));
        return size >= 1e7 || size < 1e-4 ? exact(rounded) : String(rounded);
    }

    // Formats a member of --json, or the reason why the member has no number.
    function member(object, name) {
        const value = object[name];
        if (value !== null && value !== undefined)
            return {known: true, full: exact(value),
                    text: Number.isSafeInteger(value) ? String(value)
                                                  : short(value)};
        const state = object[name + '_state'] || 'missing';
        const words = {nan: 'NaN', missing: '–'};
        const word = words[state] || state;
        return {known: false, text: word, full: state};
    }

    return {MISSING, bytesOf, decode, wrap, isMissing, text, exact, short, member};
})();
