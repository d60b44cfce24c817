import { type GgufValue, type Tensor, writeGguf } from './gguf.ts';

/** Width of the random model and its embeddings. */
export const WIDTH = 64;
const FEED_FORWARD = 128;
const BLOCKS = 2;
const HEADS = 4;
const CONTEXT = 32_768;

/** Control tokens for the start and the end of messages and tool calls. */
const MARKS = ['<|begin|>', '<|end|>', '<tool_call>', '</tool_call>'];
const END = MARKS.indexOf('<|end|>');

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
  let next = 0x100;
  return Array.from({ length: 256 }, (_, byte) =>
    String.fromCodePoint(isPrintable(byte) ? byte : next++),
  );
}

/** Words of the vocabulary. All of their prefixes are also tokens, for the list of merges. */
const WORDS = ['flat', 'room', 'rent', 'sale', 'price', 'city', 'true', 'false', 'null'];

function vocabulary(): { tokens: string[]; merges: string[]; types: number[] } {
  const tokens = [...MARKS, ...listByteCharacters()];
  const merges: string[] = [];
  for (const word of WORDS) {
    for (let length = 2; length <= word.length; length += 1) {
      const token = word.slice(0, length);
      if (tokens.includes(token)) continue;
      tokens.push(token);
      merges.push(`${word.slice(0, length - 1)} ${word.at(length - 1)}`);
    }
  }
  // Token types: 1 is normal, 3 is control (not printed), 4 is user-defined (printed).
  const types = tokens.map((token) => {
    if (!MARKS.includes(token)) return 1;
    return token.includes('tool') ? 4 : 3;
  });
  return { tokens, merges, types };
}

/** Creates a linear congruential generator of numbers from -1 to 1. Equal seeds give equal models. */
function createRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 31 - 1;
  };
}

/** Bias of tokens in the output. Positive values make strings, lists and answers end. */
const BIAS: Readonly<Record<string, number>> = {
  '"': 1,
  ']': 0.7,
  '}': 0.7,
  '<|end|>': 0.8,
  '<tool_call>': 0.8,
  // A number with an exponent of several digits is infinite.
  e: -3,
  E: -3,
};

/** Returns the bias of a token. Tokens outside printable ASCII are unlikely, because random bytes are invalid UTF-8. */
const getBias = (token: string) => BIAS[token] ?? (/^[!-~]+$/.test(token) ? 0 : -3);

const u32 = (value: number): GgufValue => ({ type: 'u32', value });

/**
 * Creates a language model with random weights as a GGUF file of 0.5 MB. Its output has no meaning, but servers treat
 * it like any other model.
 * @param options.pooling Whether to create an embedding model with mean pooling.
 */
export function createRandomModel({ seed = 1, pooling = false } = {}): Buffer {
  const random = createRandom(seed);
  const { tokens, merges, types } = vocabulary();
  const matrix = (name: string, inner: number, outer: number, scale = 1): Tensor => {
    const data = new Float32Array(inner * outer).map(() => (random() * scale) / Math.sqrt(inner));
    return { name, dimensions: [inner, outer], data };
  };
  const norm = (name: string): Tensor => ({
    name,
    dimensions: [WIDTH],
    data: new Float32Array(WIDTH).fill(1),
  });
  const embedding = matrix('token_embd.weight', WIDTH, tokens.length, 4);
  const output = matrix('output.weight', WIDTH, tokens.length, 2);
  for (const [index, token] of tokens.entries()) {
    // The first element is 1 for all tokens, so that the first output weight acts as a bias.
    embedding.data[index * WIDTH] = 1;
    output.data[index * WIDTH] = getBias(token);
  }
  const blocks = Array.from({ length: BLOCKS }, (_, block) => {
    const name = (part: string) => `blk.${block}.${part}.weight`;
    return [
      norm(name('attn_norm')),
      ...['attn_q', 'attn_k', 'attn_v', 'attn_output'].map((part) =>
        matrix(name(part), WIDTH, WIDTH),
      ),
      norm(name('ffn_norm')),
      matrix(name('ffn_gate'), WIDTH, FEED_FORWARD),
      matrix(name('ffn_up'), WIDTH, FEED_FORWARD),
      matrix(name('ffn_down'), FEED_FORWARD, WIDTH),
    ];
  });
  return writeGguf(
    {
      'general.architecture': { type: 'string', value: 'llama' },
      'general.name': { type: 'string', value: 'random' },
      'llama.context_length': u32(CONTEXT),
      'llama.embedding_length': u32(WIDTH),
      'llama.block_count': u32(BLOCKS),
      'llama.feed_forward_length': u32(FEED_FORWARD),
      'llama.attention.head_count': u32(HEADS),
      'llama.attention.head_count_kv': u32(HEADS),
      'llama.attention.layer_norm_rms_epsilon': { type: 'f32', value: 1e-5 },
      'llama.rope.dimension_count': u32(WIDTH / HEADS),
      // 1 stands for mean pooling.
      ...(pooling && { 'llama.pooling_type': u32(1) }),
      'tokenizer.ggml.model': { type: 'string', value: 'gpt2' },
      'tokenizer.ggml.pre': { type: 'string', value: 'gpt-2' },
      'tokenizer.ggml.tokens': { type: 'strings', value: tokens },
      'tokenizer.ggml.token_type': { type: 'i32s', value: types },
      'tokenizer.ggml.merges': { type: 'strings', value: merges },
      'tokenizer.ggml.bos_token_id': u32(0),
      'tokenizer.ggml.eos_token_id': u32(END),
      'tokenizer.ggml.add_bos_token': { type: 'bool', value: false },
      'tokenizer.chat_template': { type: 'string', value: CHAT_TEMPLATE },
    },
    [embedding, ...blocks.flat(), norm('output_norm.weight'), output],
  );
}
