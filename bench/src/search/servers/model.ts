import { createConstantHandler, startModelServer } from '@oselya/model/testing';
import { createVectorGenerator } from '../../listings/vector.ts';
import { EMBEDDING_MODEL } from '../../listings/rows.ts';
import { serveMethods } from '../../process/child.ts';
import { createTextVector } from '../questions.ts';

const methods = { start };
export type ModelServer = typeof methods;
serveMethods(methods);

/**
 * Starts a model server without delays, whose vectors resemble those of listings.
 * @returns The value of MODEL_BASE_URL.
 */
async function start({ dimensions }: { dimensions: number }): Promise<string> {
  const vectorGenerator = createVectorGenerator(dimensions);
  const createVector = (text: string) => createTextVector(vectorGenerator, text);
  const { url } = await startModelServer(
    createConstantHandler({ model: EMBEDDING_MODEL, createVector }),
  );
  return url;
}
