"""Provides CKKS with Microsoft SEAL (pip install seal-python). Counts and times the
operations for each stage of the layer."""
import collections
import math
import sys
import time

import numpy as np
import seal


def outer(bits):
    """Returns the sizes in bits of two primes: the first prime, which must be able to
    hold the result, and the key-switching prime."""
    return min(60, bits + 10)


def capacity(log_n, bits):
    """Returns the largest number of levels, of `bits` bits each, that still provides
    128 bits of security."""
    return (seal.CoeffModulus.MaxBitCount(1 << log_n) - 2 * outer(bits)) // bits


def largest_bits(log_n, levels):
    for bits in range(50, 23, -1):
        if capacity(log_n, bits) >= levels:
            return bits
    sys.exit(f"N = 2^{log_n} has {capacity(log_n, 24)} levels of 24 bits within 128 bits of "
             f"security, {levels} are needed: use fewer factors, a smaller p or a larger N")


class Ckks:
    """Computes on encrypted vectors of N/2 numbers. The modulus chain has a first
    prime, `levels` primes of `bits` bits, and the key-switching prime; SEAL refuses
    parameters below 128 bits of security."""

    def __init__(self, log_n, bits, levels, steps=()):
        n, fit = 1 << log_n, capacity(log_n, bits)
        if levels > fit:
            sys.exit(f"N = 2^{log_n} has {fit} levels of {bits} bits within 128 bits of security, "
                     f"{levels} are needed: use fewer factors, fewer bits, a smaller p or a larger N")
        self.levels, ends = levels, outer(bits)
        parameters = seal.EncryptionParameters(seal.scheme_type.ckks)
        parameters.set_poly_modulus_degree(n)
        primes = seal.CoeffModulus.Create(n, [ends] + [bits] * levels + [ends])
        parameters.set_coeff_modulus(primes)
        self.modulus_bits = 2 * ends + bits * levels
        context = seal.SEALContext(parameters, True, seal.sec_level_type.tc128)
        if not context.parameters_set():
            sys.exit(f"SEAL: {context.parameter_error_message()}")
        keys = seal.KeyGenerator(context)
        self.encoder, self.evaluator = seal.CKKSEncoder(context), seal.Evaluator(context)
        self.encryptor = seal.Encryptor(context, keys.secret_key())
        self.decryptor = seal.Decryptor(context, keys.secret_key())
        self.relin = keys.create_relin_keys()
        self.galois = seal.GaloisKeys()
        if steps:
            keys.create_galois_keys(sorted(set(steps)), self.galois)
        self.context, self.slots, self.reencrypted = context, n // 2, 0
        # Use a separate scale for each level, so that a rescaled product has exactly the
        # scale of the next level. A constant scale would drift, and the drift would
        # double with every square.
        self.scales, self.primes = [2.0**bits], [prime.value() for prime in primes]
        for prime in self.primes[1:-1]:
            self.scales.append(math.sqrt(self.scales[-1] * prime))
        self.stage, self.profile = "encrypt", collections.defaultdict(lambda: [0, 0.0])

    def timed(self, operation, function, *arguments):
        begin = time.process_time()
        result = function(*arguments)
        entry = self.profile[self.stage, operation]
        entry[0] += 1
        entry[1] += time.process_time() - begin
        return result

    # --- encoding: numbers are repeated until all slots are full --------------

    def tiled(self, values):
        values = np.ravel(values)
        return np.tile(values, self.slots // values.size)

    def encode(self, values, scale, parms_id):
        """Encodes a vector, or one number in all slots, at the given scale and
        level."""
        values = values if np.isscalar(values) else self.tiled(values)
        plain = self.timed("encode", self.encoder.encode, values, scale)
        return self.timed("encode", self.evaluator.mod_switch_to, plain, parms_id)

    def encrypt(self, values):
        plain = self.encoder.encode(self.tiled(values), self.scales[-1])
        return self.timed("encrypt", self.encryptor.encrypt_symmetric, plain)

    def decrypt(self, x, shape):
        plain = seal.Plaintext()
        self.decryptor.decrypt(x, plain)
        return np.asarray(self.encoder.decode(plain))[:math.prod(shape)].reshape(shape)

    def refresh(self, x):
        """Returns x with all levels available again. Decrypts and encrypts x with the
        key, because SEAL has no bootstrapping."""
        self.reencrypted += 1
        return self.encrypt(self.decrypt(x, (self.slots,)))

    def level(self, x):
        return self.context.get_context_data(x.parms_id()).chain_index()

    # --- operations -----------------------------------------------------------

    def rescale(self, x):
        return self.timed("rescale", self.evaluator.rescale_to_next, x)

    def down(self, x, other):
        """Returns x after switching it down to the level of `other`."""
        if self.level(x) == self.level(other):
            return x
        return self.timed("rescale", self.evaluator.mod_switch_to, x, other.parms_id())

    def times(self, x, y):
        x, y = (self.down(x, y), y) if self.level(x) > self.level(y) else (x, self.down(y, x))
        z = self.timed("product", self.evaluator.multiply, x, y)
        return self.rescale(self.timed("relinearise", self.evaluator.relinearize, z, self.relin))

    def square(self, x):
        z = self.timed("product", self.evaluator.square, x)
        return self.rescale(self.timed("relinearise", self.evaluator.relinearize, z, self.relin))

    def times_plain(self, x, values):
        """Multiplies without rescaling, so that a sum of products is rescaled only
        once."""
        level = self.level(x)
        scale = self.scales[level - 1] * self.primes[level] / x.scale()
        return self.timed("plain product", self.evaluator.multiply_plain, x,
                          self.encode(values, scale, x.parms_id()))

    def plus(self, x, y):
        return self.timed("sum", self.evaluator.add, x, y)

    def plus_plain(self, x, values):
        return self.timed("sum", self.evaluator.add_plain, x,
                          self.encode(values, x.scale(), x.parms_id()))

    def negate(self, x):
        return self.timed("sum", self.evaluator.negate, x)

    def rotate(self, x, step):
        """Rotates x so that slot i gets the value of slot i + step."""
        return self.timed("rotation", self.evaluator.rotate_vector, x, step, self.galois) \
            if step else x

    def sum_over(self, x, stride, n):
        """Returns, in each slot, the sum of n slots that are `stride` apart; n is a
        power of 2."""
        while n > 1:
            n //= 2
            x = self.plus(x, self.rotate(x, stride * n))
        return x

    def rotations(self, x, stride, n):
        return [self.rotate(x, r * stride) for r in range(n)]

    def matrix(self, rotated, diagonals, stride):
        """Returns the sum over r of diagonals[r] times x rotated by r * stride, with
        the baby-step giant-step method of Halevi and Shoup. rotated contains the baby
        steps, that is the first rotations of x."""
        total, baby = None, len(rotated)
        for giant in range(0, len(diagonals), baby):
            part = None
            for r in range(baby):
                # Rotate the diagonal backwards, because the giant step rotates it
                # forwards.
                diagonal = np.roll(np.ravel(diagonals[giant + r]), giant * stride)
                term = self.times_plain(rotated[r], diagonal)
                part = term if part is None else self.plus(part, term)
            part = self.rotate(part, giant * stride)
            total = part if total is None else self.plus(total, part)
        return self.rescale(total)
