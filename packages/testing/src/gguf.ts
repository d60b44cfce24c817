/** Metadata value of a GGUF file. */
export type GgufValue =
  | { type: 'u32'; value: number }
  | { type: 'f32'; value: number }
  | { type: 'bool'; value: boolean }
  | { type: 'string'; value: string }
  | { type: 'strings'; value: readonly string[] }
  | { type: 'i32s'; value: readonly number[] };

/** Tensor of 32-bit floats. Its dimensions are in the order of GGUF: the innermost first. */
export type Tensor = { name: string; dimensions: readonly number[]; data: Float32Array };

const ALIGNMENT = 32;
const TYPE = { u32: 4, i32: 5, f32: 6, bool: 7, string: 8, array: 9 };

const u32 = (value: number) => bytes(4, (view) => view.setUint32(0, value, true));
const i32 = (value: number) => bytes(4, (view) => view.setInt32(0, value, true));
const u64 = (value: number) => bytes(8, (view) => view.setBigUint64(0, BigInt(value), true));
const f32 = (value: number) => bytes(4, (view) => view.setFloat32(0, value, true));

function bytes(length: number, write: (view: DataView) => void): Buffer {
  const buffer = Buffer.alloc(length);
  write(new DataView(buffer.buffer, buffer.byteOffset, length));
  return buffer;
}

function text(value: string): Buffer {
  const encoded = Buffer.from(value);
  return Buffer.concat([u64(encoded.length), encoded]);
}

function metadataValue(entry: GgufValue): Buffer {
  switch (entry.type) {
    case 'u32':
      return Buffer.concat([u32(TYPE.u32), u32(entry.value)]);
    case 'f32':
      return Buffer.concat([u32(TYPE.f32), f32(entry.value)]);
    case 'bool':
      return Buffer.concat([u32(TYPE.bool), Buffer.from([entry.value ? 1 : 0])]);
    case 'string':
      return Buffer.concat([u32(TYPE.string), text(entry.value)]);
    case 'strings':
      return array(TYPE.string, entry.value.map(text));
    default:
      return array(TYPE.i32, entry.value.map(i32));
  }
}

function array(type: number, items: readonly Buffer[]): Buffer {
  return Buffer.concat([u32(TYPE.array), u32(type), u64(items.length), ...items]);
}

const padding = (length: number) => Buffer.alloc((ALIGNMENT - (length % ALIGNMENT)) % ALIGNMENT);

/** Encodes a GGUF file (version 3). */
export function writeGguf(
  metadata: Readonly<Record<string, GgufValue>>,
  tensors: readonly Tensor[],
): Buffer {
  const entries = Object.entries(metadata);
  const contents = tensors.map(({ data }) => {
    const content = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
    return Buffer.concat([content, padding(content.length)]);
  });
  let offset = 0;
  const infos = tensors.map(({ name, dimensions }, index) => {
    // The number after the dimensions is the tensor type: 0 for 32-bit floats.
    const info = [text(name), u32(dimensions.length), ...dimensions.map(u64), u32(0), u64(offset)];
    offset += contents[index]?.length ?? 0;
    return Buffer.concat(info);
  });
  const head = Buffer.concat([
    Buffer.from('GGUF'),
    u32(3),
    u64(tensors.length),
    u64(entries.length),
    ...entries.flatMap(([key, entry]) => [text(key), metadataValue(entry)]),
    ...infos,
  ]);
  return Buffer.concat([head, padding(head.length), ...contents]);
}
