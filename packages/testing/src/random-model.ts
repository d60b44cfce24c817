import { encodeValue, type Tensor, writeGguf } from './gguf.ts';

/** Width of the random model and its embeddings. */
export const WIDTH = 64;
const FEED_FORWARD_WIDTH = 128;
const BLOCK_COUNT = 2;
const HEAD_COUNT = 4;
const CONTEXT_LENGTH = 32_768;

/** Control tokens for the start and the end of messages and tool calls. */
const CONTROL_TOKENS = ['<|begin|>', '<|end|>', '<tool_call>', '</tool_call>'];
const END_TOKEN_ID = CONTROL_TOKENS.indexOf('<|end|>');

/**
 * Chat template in a common format: tools in the system message, and tool calls as JSON between two control tokens. The
 * server detects the format of tool calls from the template.
 */
const CHAT_TEMPLATE = `{%- if tools %}
{{- '<|begin|>tools\\n' }}
{%- for tool in tools %}
{{- tool | tojson }}
{{- '\\n' }}
{%- endfor %}
{{- 'A call: <tool_call>{"name": NAME, "arguments": INPUT}</tool_call><|end|>\\n' }}
{%- endif %}
{%- for message in messages %}
{{- '<|begin|>' + message.role + '\\n' }}
{%- if message.content %}
{{- message.content }}
{%- endif %}
{%- for call in message.tool_calls or [] %}
{{- '<tool_call>{"name": "' + call.function.name + '", "arguments": ' }}
{{- call.function.arguments | tojson }}
{{- '}</tool_call>' }}
{%- endfor %}
{{- '<|end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|begin|>assistant\\n' }}
{%- endif %}
`;

const isPrintable = (byte: number) =>
  (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;

/** Returns the printable characters that byte-level tokenizers use for the 256 bytes. */
function listByteCharacters(): string[] {
  let nextCodePoint = 0x100;
  return Array.from({ length: 256 }, (_, byte) =>
    String.fromCodePoint(isPrintable(byte) ? byte : nextCodePoint++),
  );
}

/** Vocabulary words. All of their prefixes are also tokens, as the merge list requires. */
const VOCABULARY_WORDS = ['flat', 'room', 'rent', 'sale', 'price', 'city', 'true', 'false', 'null'];

function createVocabulary(): { tokens: string[]; merges: string[]; types: number[] } {
  const tokens = [...CONTROL_TOKENS, ...listByteCharacters()];
  const merges: string[] = [];
  for (const word of VOCABULARY_WORDS) {
    for (let length = 2; length <= word.length; length += 1) {
      const token = word.slice(0, length);
      if (tokens.includes(token)) continue;
      tokens.push(token);
      merges.push(`${word.slice(0, length - 1)} ${word.at(length - 1)}`);
    }
  }
  // Token types: 1 is normal, 3 is control (not printed), 4 is user-defined (printed).
  const types = tokens.map((token) => {
    if (!CONTROL_TOKENS.includes(token)) return 1;
    return token.includes('tool') ? 4 : 3;
  });
  return { tokens, merges, types };
}

/**
 * Creates a linear congruential generator of numbers from -1 to 1. The seed is constant, so all models are identical.
 */
function createRandom(): () => number {
  let state = 1;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 31 - 1;
  };
}

/** Biases of output tokens. Positive values make strings, lists and answers end, and tool calls begin. */
const TOKEN_BIASES: Readonly<Record<string, number>> = {
  '"': 1,
  ']': 0.7,
  '}': 0.7,
  '<|end|>': 0.8,
  '<tool_call>': 0.8,
  // A number with an exponent of several digits may be infinite.
  e: -3,
  E: -3,
};

/** Returns the bias of a token. Tokens outside printable ASCII are unlikely, because random bytes are invalid UTF-8. */
const getBias = (token: string) => TOKEN_BIASES[token] ?? (/^[!-~]+$/.test(token) ? 0 : -3);

/**
 * Creates a language model with random weights as a GGUF file of 0.5 MB. Its output has no meaning, but servers treat
 * it like any other model.
 * @param options.pooling Whether to create an embedding model with mean pooling.
 */
export function createRandomModel({ pooling = false } = {}): Buffer {
  const random = createRandom();
  const { tokens, merges, types } = createVocabulary();
  const createMatrix = (name: string, inputSize: number, outputSize: number, scale = 1): Tensor => {
    const data = new Float32Array(inputSize * outputSize).map(
      () => (random() * scale) / Math.sqrt(inputSize),
    );
    return { name, dimensions: [inputSize, outputSize], data };
  };
  const createNorm = (name: string): Tensor => ({
    name,
    dimensions: [WIDTH],
    data: new Float32Array(WIDTH).fill(1),
  });
  const embedding = createMatrix('token_embd.weight', WIDTH, tokens.length, 4);
  const output = createMatrix('output.weight', WIDTH, tokens.length, 2);
  for (const [index, token] of tokens.entries()) {
    // The first element is 1 for all tokens, so that the first output weight acts as a bias.
    embedding.data[index * WIDTH] = 1;
    output.data[index * WIDTH] = getBias(token);
  }
  const blocks = Array.from({ length: BLOCK_COUNT }, (_, block) => {
    const name = (part: string) => `blk.${block}.${part}.weight`;
    return [
      createNorm(name('attn_norm')),
      ...['attn_q', 'attn_k', 'attn_v', 'attn_output'].map((part) =>
        createMatrix(name(part), WIDTH, WIDTH),
      ),
      createNorm(name('ffn_norm')),
      createMatrix(name('ffn_gate'), WIDTH, FEED_FORWARD_WIDTH),
      createMatrix(name('ffn_up'), WIDTH, FEED_FORWARD_WIDTH),
      createMatrix(name('ffn_down'), FEED_FORWARD_WIDTH, WIDTH),
    ];
  });
  return writeGguf(
    {
      'general.architecture': encodeValue.string('llama'),
      'general.name': encodeValue.string('random'),
      'llama.context_length': encodeValue.u32(CONTEXT_LENGTH),
      'llama.embedding_length': encodeValue.u32(WIDTH),
      'llama.block_count': encodeValue.u32(BLOCK_COUNT),
      'llama.feed_forward_length': encodeValue.u32(FEED_FORWARD_WIDTH),
      'llama.attention.head_count': encodeValue.u32(HEAD_COUNT),
      'llama.attention.head_count_kv': encodeValue.u32(HEAD_COUNT),
      'llama.attention.layer_norm_rms_epsilon': encodeValue.f32(1e-5),
      'llama.rope.dimension_count': encodeValue.u32(WIDTH / HEAD_COUNT),
      // 1 stands for mean pooling.
      ...(pooling && { 'llama.pooling_type': encodeValue.u32(1) }),
      'tokenizer.ggml.model': encodeValue.string('gpt2'),
      'tokenizer.ggml.pre': encodeValue.string('gpt-2'),
      'tokenizer.ggml.tokens': encodeValue.strings(tokens),
      'tokenizer.ggml.token_type': encodeValue.i32s(types),
      'tokenizer.ggml.merges': encodeValue.strings(merges),
      'tokenizer.ggml.bos_token_id': encodeValue.u32(0),
      'tokenizer.ggml.eos_token_id': encodeValue.u32(END_TOKEN_ID),
      'tokenizer.ggml.add_bos_token': encodeValue.bool(false),
      'tokenizer.chat_template': encodeValue.string(CHAT_TEMPLATE),
    },
    [embedding, ...blocks.flat(), createNorm('output_norm.weight'), output],
  );
}
