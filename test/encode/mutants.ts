/** Encoders broken on purpose: each must be caught, by the vectors and by the fuzz, or those prove nothing. */
import { BcsWriter, type IntegerBits } from '../../src/encode/bcs.ts';

class BigEndian extends BcsWriter {
  override integer(value: bigint, bits: IntegerBits): void {
    const hex = value.toString(16).padStart(bits / 4, '0');
    this.raw(Buffer.from(hex, 'hex'));
  }
}

class WideIntegersCutTo64Bits extends BcsWriter {
  override integer(value: bigint, bits: IntegerBits): void {
    super.integer(bits > 64 ? BigInt.asUintN(64, value) : value, bits);
  }
}

class NumbersThroughDoubles extends BcsWriter {
  override integer(value: bigint, bits: IntegerBits): void {
    super.integer(BigInt.asUintN(bits, BigInt(Number(value))), bits);
  }
}

class LengthInOneByte extends BcsWriter {
  override uleb128(value: number): void {
    this.byte(value % 256);
  }
}

class LengthNotMinimal extends BcsWriter {
  override uleb128(value: number): void {
    if (value > 127) return super.uleb128(value);
    this.byte(value | 128);
    this.byte(0);
  }
}

class StringsCountedInUtf16 extends BcsWriter {
  override string(text: string): void {
    this.sequenceLength(text.length);
    this.raw(Buffer.from(text));
  }
}

class StringsInLatin1 extends BcsWriter {
  override string(text: string): void {
    const bytes = Buffer.from(text, 'latin1');
    this.sequenceLength(bytes.length);
    this.raw(bytes);
  }
}

class AddressesFilledFromTheRight extends BcsWriter {
  override address(...[address]: Parameters<BcsWriter['address']>): void {
    this.raw(Buffer.from(address.slice(2).padEnd(64, '0'), 'hex'));
  }
}

class TypeTagsInOrderOfSize extends BcsWriter {
  override typeTag(...[tag]: Parameters<BcsWriter['typeTag']>): void {
    const sizes = ['bool', 'u8', 'u16', 'u32', 'u64', 'u128', 'u256', 'address', 'signer'];
    if (tag.kind === 'primitive') this.byte(sizes.indexOf(tag.name));
    else super.typeTag(tag);
  }
}

class TypeArgumentsForgotten extends BcsWriter {
  override typeTag(...[tag]: Parameters<BcsWriter['typeTag']>): void {
    super.typeTag(tag.kind === 'struct' ? { ...tag, typeArguments: [] } : tag);
  }
}

class ArgumentsCountedOneShort extends BcsWriter {
  override endBytes(start: number): void {
    super.endBytes(start + 1);
  }
}

class BooleansTurned extends BcsWriter {
  override bool(value: boolean): void {
    super.bool(!value);
  }
}

class HexDigitsTurned extends BcsWriter {
  override hex(digits: string): boolean {
    return super.hex(digits.replaceAll(/../g, (pair) => `${pair[1]}${pair[0]}`));
  }
}

const writers = [
  BigEndian,
  WideIntegersCutTo64Bits,
  NumbersThroughDoubles,
  LengthInOneByte,
  LengthNotMinimal,
  StringsCountedInUtf16,
  StringsInLatin1,
  AddressesFilledFromTheRight,
  TypeTagsInOrderOfSize,
  TypeArgumentsForgotten,
  ArgumentsCountedOneShort,
  BooleansTurned,
  HexDigitsTurned,
];

/** Made anew for each use. */
export const mutants: readonly (() => BcsWriter)[] = writers.map((Writer) => () => new Writer());
