-- two_factor_required: 1 if members of the account need two-factor authentication. signed_in_with: what the user of a session proved;
-- 'second-factor' is a code, a recovery code, or a passkey, and 'identity-provider' leaves the second factor to the provider.
ALTER TABLE account ADD COLUMN two_factor_required INTEGER NOT NULL DEFAULT 0;
ALTER TABLE user_session ADD COLUMN signed_in_with TEXT NOT NULL DEFAULT 'password'
  CHECK (signed_in_with IN ('password', 'second-factor', 'identity-provider'));
UPDATE user_session SET signed_in_with = 'second-factor'
WHERE EXISTS (SELECT 1 FROM app_user u WHERE u.id = user_session.user_id AND u.totp_confirmed_at <= user_session.created_at);
