import { exportJWK, generateKeyPair, type JWK, type JWTPayload, SignJWT } from 'jose';
import type { ScriptedProvider } from '../scripted-provider.ts';

/** A key that signs ID tokens, with its public part. */
export type SigningKey = {
  published: JWK;
  sign(claims: JWTPayload, header?: { typ?: string; kid?: string }): Promise<string>;
};

/** Creates a key of a provider. */
export async function makeSigningKey(kid: string, alg = 'RS256'): Promise<SigningKey> {
  const { publicKey, privateKey } = await generateKeyPair(alg);
  return {
    published: { ...(await exportJWK(publicKey)), kid, alg, use: 'sig' },
    sign: (claims, header) =>
      new SignJWT(claims).setProtectedHeader({ alg, kid, ...header }).sign(privateKey),
  };
}

/** Makes a scripted provider issue ID tokens of the user `u-1`, signed with a published key. */
export async function giveIdTokens(
  provider: Pick<ScriptedProvider, 'url' | 'client' | 'keys' | 'idToken'>,
): Promise<void> {
  const key = await makeSigningKey('k-1');
  provider.keys = [key.published];
  provider.idToken = () => {
    const iat = Math.floor(Date.now() / 1000);
    return key.sign({ iss: provider.url, aud: provider.client.id, sub: 'u-1', iat, exp: iat + 60 });
  };
}
