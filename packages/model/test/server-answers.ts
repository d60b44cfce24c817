import type { Answer } from './scripted-server.ts';

/** Chat completions in the forms that the servers really give them. */
export const chat = {
  ollama: (content: string, finishReason = 'stop'): Answer => ({
    body: {
      id: 'chatcmpl-214',
      object: 'chat.completion',
      created: 1_770_000_000,
      model: 'qwen3:4b',
      system_fingerprint: 'fp_ollama',
      choices: [{ index: 0, message: { role: 'assistant', content }, finish_reason: finishReason }],
      usage: { prompt_tokens: 26, completion_tokens: 9, total_tokens: 35 },
    },
  }),
  vllm: (content: string, finishReason = 'stop'): Answer => ({
    body: {
      id: 'chatcmpl-5d1f0c5e',
      object: 'chat.completion',
      created: 1_770_000_000,
      model: 'Qwen/Qwen3-4B',
      choices: [
        {
          index: 0,
          message: {
            role: 'assistant',
            content,
            refusal: null,
            annotations: null,
            audio: null,
            function_call: null,
            tool_calls: [],
            reasoning_content: null,
          },
          logprobs: null,
          finish_reason: finishReason,
          stop_reason: null,
          token_ids: null,
        },
      ],
      service_tier: null,
      system_fingerprint: null,
      usage: {
        prompt_tokens: 26,
        total_tokens: 35,
        completion_tokens: 9,
        prompt_tokens_details: null,
      },
      prompt_logprobs: null,
      kv_transfer_params: null,
    },
  }),
  llamaCpp: (content: string, finishReason = 'stop'): Answer => ({
    body: {
      choices: [{ finish_reason: finishReason, index: 0, message: { role: 'assistant', content } }],
      created: 1_770_000_000,
      model: 'qwen3-4b-q4_k_m.gguf',
      system_fingerprint: 'b6100-0f1d2a3c',
      object: 'chat.completion',
      usage: { completion_tokens: 9, prompt_tokens: 26, total_tokens: 35 },
      id: 'chatcmpl-Zr3Yx',
      timings: { prompt_n: 26, prompt_ms: 12.5, predicted_n: 9, predicted_ms: 80.1 },
    },
  }),
  /** A small server that counts no tokens and names no model. */
  bare: (content: string): Answer => ({
    body: { choices: [{ message: { role: 'assistant', content }, finish_reason: 'stop' }] },
  }),
};

/** Errors in the forms that the servers really give them. */
export const failure = {
  ollamaMissingModel: {
    status: 404,
    body: {
      error: {
        message: 'model "qwen3:4b" not found, try pulling it first',
        type: 'api_error',
        param: null,
        code: null,
      },
    },
  },
  vllmBadRequest: {
    status: 400,
    body: {
      object: 'error',
      message: 'The decoder prompt (length 9001) is longer than the maximum model length of 8192.',
      type: 'BadRequestError',
      param: null,
      code: 400,
    },
  },
  llamaCppLoading: {
    status: 503,
    body: { error: { code: 503, message: 'Loading model', type: 'unavailable_error' } },
  },
  ollamaCrash: {
    status: 500,
    body: { error: { message: 'llama runner process has terminated', type: 'api_error' } },
  },
  htmlPage: {
    status: 502,
    body: '<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>',
  },
  tooMany: (headers: Record<string, string>) => ({
    status: 429,
    headers,
    body: { error: { message: 'Rate limit reached', type: 'requests', code: 'rate_limit' } },
  }),
} satisfies Record<string, Answer | ((headers: Record<string, string>) => Answer)>;
