import type { IncomingMessage, ServerResponse } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { startServer } from './images.ts';

const SIGNATURE =
  /^AWS4-HMAC-SHA256 Credential=key-id\/\d{8}\/test-region\/s3\/aws4_request, ?SignedHeaders=[\w;-]*host[\w;-]*x-amz-content-sha256[\w;-]*, ?Signature=[0-9a-f]{64}$/;

/** Starts an S3 server with the bucket `images`, for image store requests with path-style URLs. */
export async function startBucket() {
  const objects = new Map<string, Buffer>();
  const requests: string[] = [];
  const state = {
    /** Whether the server closes every connection without a response. */
    isDown: false,
    /** Number of upcoming requests that get 503 SlowDown. */
    slowDownCount: 0,
    /** Promise that delays PUT requests. */
    uploadsAllowed: Promise.resolve(),
    /** Method of requests that get no response. */
    ignoredMethod: undefined as 'GET' | 'DELETE' | undefined,
  };

  async function respond(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = '', url = '', headers } = request;
    const { pathname } = new URL(url, 'http://bucket.test');
    requests.push(`${method} ${pathname}`);
    if (state.isDown) return void request.socket.destroy();
    if (method === 'PUT') await state.uploadsAllowed;
    const body = await buffer(request);
    const sendError = (status: number, code: string) => {
      response.writeHead(status, { 'content-type': 'application/xml' });
      const xml = `<?xml version="1.0"?><Error><Code>${code}</Code><Message>${code}</Message></Error>`;
      response.end(method === 'HEAD' ? undefined : xml);
    };
    if (!SIGNATURE.test(headers.authorization ?? ''))
      return sendError(403, 'SignatureDoesNotMatch');
    if (!`${pathname}/`.startsWith('/images/')) return sendError(404, 'NoSuchBucket');
    if (state.slowDownCount > 0) {
      state.slowDownCount -= 1;
      return sendError(503, 'SlowDown');
    }
    if (method === state.ignoredMethod) return;
    const key = pathname.slice('/images/'.length);
    if (method === 'PUT') {
      if (body.length !== Number(headers['content-length']))
        return sendError(400, 'IncompleteBody');
      objects.set(key, body);
      response.writeHead(200, { etag: '"stored"' }).end();
      return;
    }
    if (method === 'DELETE') {
      // S3 sends 204 for a missing object too.
      objects.delete(key);
      response.writeHead(204).end();
      return;
    }
    const object = objects.get(key);
    if (object === undefined) return sendError(404, 'NoSuchKey');
    response.writeHead(200, { 'content-length': object.length, etag: '"stored"' });
    response.end(method === 'HEAD' ? undefined : object);
  }

  const { url: endpoint } = await startServer(
    (request, response) => void respond(request, response),
  );
  const env = {
    IMAGE_STORE: 's3',
    S3_ENDPOINT: endpoint,
    S3_REGION: 'test-region',
    S3_BUCKET: 'images',
    S3_ACCESS_KEY_ID: 'key-id',
    S3_SECRET_ACCESS_KEY: 'secret',
    S3_FORCE_PATH_STYLE: 'true',
  };
  return { env, objects, requests, state };
}
