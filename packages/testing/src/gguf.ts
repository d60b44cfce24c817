/** Tensor of 32-bit floats. Its dimensions are in the order of GGUF: the innermost first. */
export type Tensor = { name: string; dimensions: readonly number[]; data: Float32Array };

const ALIGNMENT = 32;
const VALUE_TYPE = { u32: 4, i32: 5, f32: 6, bool: 7, string: 8, array: 9 };

// Typed arrays have the byte order of the processor: little-endian, like the format.
const encodeU32 = (value: number) => Buffer.from(Uint32Array.of(value).buffer);
const encodeI32 = (value: number) => Buffer.from(Int32Array.of(value).buffer);
const encodeU64 = (value: number) => Buffer.from(BigUint64Array.of(BigInt(value)).buffer);
const encodeF32 = (value: number) => Buffer.from(Float32Array.of(value).buffer);

function encodeText(value: string): Buffer {
  const encodedText = Buffer.from(value);
  return Buffer.concat([encodeU64(encodedText.length), encodedText]);
}

const encodeArray = (type: number, elements: readonly Buffer[]) =>
  Buffer.concat([
    ...[VALUE_TYPE.array, type].map(encodeU32),
    encodeU64(elements.length),
    ...elements,
  ]);

/** Encoders of metadata values by type. */
export const encodeValue = {
  u32: (value: number) => Buffer.concat([encodeU32(VALUE_TYPE.u32), encodeU32(value)]),
  f32: (value: number) => Buffer.concat([encodeU32(VALUE_TYPE.f32), encodeF32(value)]),
  bool: (value: boolean) =>
    Buffer.concat([encodeU32(VALUE_TYPE.bool), Buffer.from([value ? 1 : 0])]),
  string: (value: string) => Buffer.concat([encodeU32(VALUE_TYPE.string), encodeText(value)]),
  strings: (values: readonly string[]) => encodeArray(VALUE_TYPE.string, values.map(encodeText)),
  i32s: (values: readonly number[]) => encodeArray(VALUE_TYPE.i32, values.map(encodeI32)),
};

const createPadding = (length: number) =>
  Buffer.alloc((ALIGNMENT - (length % ALIGNMENT)) % ALIGNMENT);

/** Encodes a GGUF file (version 3) from encoded metadata values and tensors. */
export function writeGguf(
  metadata: Readonly<Record<string, Buffer>>,
  tensors: readonly Tensor[],
): Buffer {
  const entries = Object.entries(metadata);
  const contents = tensors.map(({ data }) => {
    const content = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
    return Buffer.concat([content, createPadding(content.length)]);
  });
  let offset = 0;
  const tensorInfos = tensors.map(({ name, dimensions }, index) => {
    // The number after the dimensions is the tensor type: 0 for 32-bit floats.
    const info = [
      encodeText(name),
      encodeU32(dimensions.length),
      ...dimensions.map(encodeU64),
      encodeU32(0),
      encodeU64(offset),
    ];
    offset += contents[index]?.length ?? 0;
    return Buffer.concat(info);
  });
  const header = Buffer.concat([
    Buffer.from('GGUF'),
    encodeU32(3),
    encodeU64(tensors.length),
    encodeU64(entries.length),
    ...entries.flatMap(([key, value]) => [encodeText(key), value]),
    ...tensorInfos,
  ]);
  return Buffer.concat([header, createPadding(header.length), ...contents]);
}
