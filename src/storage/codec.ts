/**
 * How arguments cross to the storage thread where cloning them as they are is too slow: as one JSON text of lists without
 * names, the bytes of a whole group of calls beside it in one piece, which changes hands without being copied again. Made of
 * the columns of tables (rows.ts). Cloned as it is, an acceptance cost 11 us of the serving thread and 6 us of the storage
 * thread, as JSON with names 4 and 4 (accept row of the benchmarks, 1.8 KB bodies).
 */
/** Of a column; with `?` the value may be null. */
export type ColumnType = 'int' | 'int?' | 'text' | 'text?' | 'bytes' | 'bytes?';

export interface Codec<T> {
  /** What JSON can say; bytes are added to `bytes`. */
  pack(value: T, bytes: PackedBytes): unknown;
  /** Takes the bytes in the order in which they were added. */
  unpack(packed: unknown, bytes: UnpackedBytes): T;
}

/** Of a field: a column's type, `json` for whatever JSON can say, or what is within. */
// biome-ignore lint/suspicious/noExplicitAny: of whatever the field is
type FieldCodec = ColumnType | 'json' | Codec<any>;

/** An object with these fields. */
export function record<T extends object>(fields: { readonly [N in keyof T]-?: FieldCodec }): Codec<T> {
  const codecs = Object.entries<FieldCodec>(fields).map(([name, field]) => [name, codecOf(field)] as const);
  return {
    pack: (value, bytes) => {
      const packed: unknown[] = [];
      for (const [name, codec] of codecs) {
        const one = (value as Record<string, unknown>)[name];
        packed.push(codec === undefined ? one : codec.pack(one, bytes));
      }
      return packed;
    },
    unpack: (packed, bytes) => {
      const value: Record<string, unknown> = {};
      let at = 0;
      for (const [name, codec] of codecs) {
        const one = (packed as unknown[])[at++];
        value[name] = codec === undefined ? one : codec.unpack(one, bytes);
      }
      return value as T;
    },
  };
}

export function list<T>(item: Codec<T>): Codec<T[]> {
  return {
    pack: (values, bytes) => values.map((value) => item.pack(value, bytes)),
    unpack: (packed, bytes) => (packed as unknown[]).map((one) => item.unpack(one, bytes)),
  };
}

export function nullable<T>(inner: Codec<T>): Codec<T | null> {
  return {
    pack: (value, bytes) => (value === null ? null : inner.pack(value, bytes)),
    unpack: (packed, bytes) => (packed === null ? null : inner.unpack(packed, bytes)),
  };
}

/** Their length stands among the rest. */
const BYTES: Codec<Uint8Array | null> = {
  pack: (value, bytes) => {
    if (value === null) return null;
    bytes.add(value);
    return value.length;
  },
  unpack: (packed, bytes) => (packed === null ? null : bytes.take(packed as number)),
};

/** Undefined for what crosses as it is. */
function codecOf(field: FieldCodec): Codec<unknown> | undefined {
  if (typeof field === 'object') return field as Codec<unknown>;
  return field === 'bytes' || field === 'bytes?' ? (BYTES as Codec<unknown>) : undefined;
}

/** Of a group of calls, on their way. */
export class PackedBytes {
  readonly #pieces: Uint8Array[] = [];
  #sizeBytes = 0;

  add(bytes: Uint8Array): void {
    this.#pieces.push(bytes);
    this.#sizeBytes += bytes.length;
  }

  /** All of them in their order; null where there are none. */
  joined(): ArrayBuffer | null {
    if (this.#sizeBytes === 0) return null;
    const whole = Buffer.allocUnsafeSlow(this.#sizeBytes);
    let at = 0;
    for (const piece of this.#pieces) {
      whole.set(piece, at);
      at += piece.length;
    }
    return whole.buffer;
  }
}

/** The same where they have arrived; views of them are good as long as they are kept. */
export class UnpackedBytes {
  readonly #whole: ArrayBuffer | null;
  #at = 0;

  constructor(whole: ArrayBuffer | null) {
    this.#whole = whole;
  }

  take(length: number): Uint8Array {
    if (length === 0) return new Uint8Array(0);
    if (this.#whole === null || this.#at + length > this.#whole.byteLength)
      throw new RangeError('bytes that were not carried');
    const taken = new Uint8Array(this.#whole, this.#at, length);
    this.#at += length;
    return taken;
  }
}
