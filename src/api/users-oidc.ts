/** Login through an identity provider: two pages that a browser passes through. They are not API calls and not documented. */
import type { Caller } from '../accounts/accounts.ts';
import { isOverHttps } from '../http/cross-site.ts';
import type { RouteDefinition } from '../http/route.ts';
import { createOidc } from '../users/oidc.ts';
import { sessionCookie } from '../users/sessions.ts';
import type { SignInService } from '../users/sign-in.ts';
import { type UserRouteDeps, userRoute } from '../users/user-route.ts';

export function oidcRoutes(deps: UserRouteDeps, signIn: SignInService): RouteDefinition<Caller>[] {
  const oidc = createOidc(deps, signIn);
  const common = {
    method: 'GET',
    tag: 'session',
    access: { auth: 'none' },
    hidden: true,
    response: { status: 302 },
  } as const;
  return [
    userRoute({
      ...common,
      path: '/session/oidc',
      summary: 'Redirect to the identity provider',
      handle: async () => {
        const redirect = await oidc.begin();
        if (!redirect.ok) return redirect;
        return { ok: true, body: {}, headers: { Location: redirect.value.url, 'Set-Cookie': redirect.value.cookie } };
      },
    }),
    userRoute({
      ...common,
      path: '/session/oidc/callback',
      ownQuery: true,
      summary: 'Complete the sign-in with the identity provider',
      handle: async (request) => {
        const signedIn = await oidc.finish(request);
        if (!signedIn.ok) return signedIn;
        const cookie = sessionCookie(
          { baseUrl: deps.baseUrl, isOverHttps: isOverHttps(request, deps.baseUrl) },
          signedIn.value.token,
        );
        return { ok: true, body: {}, headers: { Location: '/', ...cookie } };
      },
    }),
  ];
}
