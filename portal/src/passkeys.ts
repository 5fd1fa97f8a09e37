/** What a browser does with passkeys (WebAuthn Level 3): it makes one, or signs in with one. */
import { callerOf, type Person } from './api.ts';

export const hasPasskeys = (): boolean =>
  typeof PublicKeyCredential === 'function' && 'parseRequestOptionsFromJSON' in PublicKeyCredential;

/** Throws what the browser says, such as NotAllowedError when the person has changed their mind. */
export async function signInWithPasskey(): Promise<Person> {
  const options = await callerOf().call('offerPasskeySignIn');
  const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(options as never);
  const credential = (await navigator.credentials.get({ publicKey })) as PublicKeyCredential;
  return callerOf().call('signInWithPasskey', { body: { credential: credential.toJSON() as never } });
}

export async function makePasskey(name: string): Promise<void> {
  const options = await callerOf().call('offerPasskey');
  const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(options as never);
  const credential = (await navigator.credentials.create({ publicKey })) as PublicKeyCredential;
  await callerOf().call('addPasskey', { body: { name, credential: credential.toJSON() as never } });
}
