/** Shows the frame around the pages of a signed-in user: menu, account, mode, search, and profile. */
import {
  ActionIcon,
  CloseButton,
  type MantineColorScheme,
  NativeSelect,
  SegmentedControl,
  useMantineColorScheme,
} from '@mantine/core';
import { useHotkeys } from '@mantine/hooks';
import { Notifications } from '@mantine/notifications';
import '@mantine/notifications/styles.layer.css';
import '../mantine-pages.css';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { Link, Outlet, useLocation, useNavigate } from '@tanstack/react-router';
import { lazy, Suspense, useEffect, useId, useRef, useState } from 'react';
import { callerOf, type Mode, PostriderError } from '../api.ts';
import { basePath } from '../base-path.ts';
import { IconFileText, IconLogout, IconMenu2, IconSearch, IconUserCircle } from '../icons.ts';
import { LiveProvider } from '../live.tsx';
import { EmptyState, Loading } from '../parts/states.tsx';
import { failed } from '../parts/undo.tsx';
import { useScope } from '../scope.ts';
import { SignedIn, setPerson } from '../session.tsx';
import { shell } from '../texts/shell.ts';
import { AccountIcon, type NavigationGroup, OperatorIcon, placeOf } from './navigation.ts';
import classes from './shell.module.css';
import { SupportAccess } from './support-access.tsx';

const ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone;
const Palette = lazy(() => import('./palette.tsx'));
const TwoFactorPage = lazy(() => import('../pages/two-factor/two-factor.tsx'));

export function Shell() {
  return (
    <SignedIn>
      <Notifications position="bottom-right" autoClose={6000} />
      <LiveProvider>
        <Frame />
      </LiveProvider>
    </SignedIn>
  );
}

function Frame() {
  const menu = useRef<HTMLDialogElement>(null);
  const [paletteRequests, setPaletteRequests] = useState(0);
  const { pathname } = useLocation();
  const { mode, account } = useScope();
  const isOperatorArea = pathname.startsWith('/app/operator');
  const isOfAccount = !isOperatorArea && pathname.split('/')[3] !== 'profile';
  const twoFactor = useTwoFactorSetup();
  const closeMenu = (): void => menu.current?.close();
  const search = (): void => {
    closeMenu();
    setPaletteRequests((count) => count + 1);
  };
  useHotkeys([['mod+K', search]], []);
  useEffect(closeMenu, [pathname]);
  return (
    <div className={classes.app}>
      <a href="#content" className="skip">
        {shell.skip}
      </a>
      <section className={classes.top} aria-label={shell.top}>
        <ActionIcon onClick={() => menu.current?.showModal()} aria-label={shell.menu}>
          <IconMenu2 size={18} />
        </ActionIcon>
        <Brand />
        <ActionIcon onClick={search} aria-label={shell.search}>
          <IconSearch size={18} />
        </ActionIcon>
      </section>
      <aside className={classes.side} data-bar>
        <Brand />
        <Side onSearch={search} />
      </aside>
      <dialog ref={menu} className={classes.drawer} aria-label={shell.menu} closedby="any">
        <div className={classes.side}>
          <CloseButton onClick={closeMenu} aria-label={shell.close} ml="auto" />
          <Side onSearch={search} />
        </div>
      </dialog>
      <main id="content" className={classes.main} tabIndex={-1}>
        {!isOperatorArea && <SupportAccess />}
        {mode === 'sandbox' && !isOperatorArea && <div className={classes.sandbox}>{shell.sandboxNote}</div>}
        {account === undefined && isOfAccount ? (
          <EmptyState title={shell.noAccount}>{shell.noAccountHint}</EmptyState>
        ) : twoFactor.isOpen && isOfAccount ? (
          <Suspense fallback={<Loading />}>
            <TwoFactorPage onContinue={twoFactor.close} />
          </Suspense>
        ) : (
          <Outlet />
        )}
      </main>
      {paletteRequests > 0 && (
        <Suspense>
          <Palette wanted={paletteRequests} />
        </Suspense>
      )}
    </div>
  );
}

/** Opens for an account that requires two-factor authentication which this session lacks, and stays open until it is closed. */
function useTwoFactorSetup(): { isOpen: boolean; close(): void } {
  const { person, account } = useScope();
  const [openFor, setOpenFor] = useState<string>();
  const isNeeded = account?.twoFactorRequired === true && person.twoFactor.missing !== undefined;
  if (isNeeded && openFor !== account.accountId) setOpenFor(account.accountId);
  return {
    isOpen: account !== undefined && openFor === account.accountId,
    close: () => setOpenFor(undefined),
  };
}

function Brand() {
  return (
    <Link to="/" className={classes.brand}>
      <img src={`${basePath}/icon.svg`} alt="" width={20} height={20} />
      Postrider
    </Link>
  );
}

function Side({ onSearch }: { onSearch(): void }) {
  const scope = useScope();
  const { pathname } = useLocation();
  const { base, groups } = placeOf(pathname, scope);
  return (
    <>
      {base === '/app/operator' ? <div className={classes.operator}>{shell.operator}</div> : <AccountAndMode />}
      <button type="button" className={classes.searchButton} onClick={onSearch}>
        <IconSearch size={14} aria-hidden />
        {shell.search}
        <kbd>⌘K</kbd>
      </button>
      <nav aria-label={shell.menu}>
        {groups.map((group) => (
          <MenuGroup key={group.name ?? ''} group={group} base={base} pathname={pathname} />
        ))}
      </nav>
      <PersonMenu isOperatorArea={base === '/app/operator'} />
    </>
  );
}

interface MenuGroupProps {
  group: NavigationGroup;
  base: string;
  pathname: string;
}

function MenuGroup({ group: { name, isRare, pages }, base, pathname }: MenuGroupProps) {
  const list = (
    <ul className={classes.group}>
      {pages.map((page) => (
        <li key={page.path}>
          <PageLink {...page} base={base} pathname={pathname} />
        </li>
      ))}
    </ul>
  );
  if (isRare)
    return (
      <details open={pages.some(({ path }) => isWithin(base + path, pathname))}>
        <summary className={classes.heading}>{name}</summary>
        {list}
      </details>
    );
  return (
    <div>
      {name !== undefined && <p className={classes.heading}>{name}</p>}
      {list}
    </div>
  );
}

/** Returns whether the page at this path, or a page below it, is open. */
function isWithin(path: string, pathname: string): boolean {
  const here = pathname.replace(/\/$/, '');
  return here === path || here.startsWith(`${path}/`);
}

interface PageLinkProps {
  name: string;
  path: string;
  base: string;
  pathname: string;
  icon: typeof IconSearch;
}

function PageLink({ name, path, base, pathname, icon: Icon }: PageLinkProps) {
  const isCurrent = path === '' ? pathname.replace(/\/$/, '') === base : isWithin(base + path, pathname);
  const link = useRef<HTMLAnchorElement>(null);
  // In a low window, the menu scrolls.
  useEffect(() => {
    if (isCurrent) link.current?.scrollIntoView({ block: 'nearest' });
  }, [isCurrent]);
  return (
    <Link
      ref={link}
      to={base + path}
      className={classes.link}
      data-chosen={isCurrent || undefined}
      aria-current={isCurrent ? 'page' : undefined}
    >
      <Icon size={16} stroke={1.7} aria-hidden />
      {name}
    </Link>
  );
}

function AccountAndMode() {
  const { person, account, mode, chooseAccount } = useScope();
  const navigate = useNavigate();
  const { pathname } = useLocation();
  /** Opens the same list in the other mode. It does not keep the open item, which exists in one mode only. */
  const switchMode = (next: Mode): void => {
    const [, , , area = ''] = pathname.split('/');
    void navigate({ to: `/app/${next}/${area === 'inbox' && next === 'live' ? 'messages' : area}` });
  };
  /** Opens the same list of the other account, without filters and `?account=`, which are of the account before. */
  const switchAccount = (accountId: string): void => {
    const [, , , area = ''] = pathname.split('/');
    chooseAccount(accountId);
    void navigate({ to: `/app/${mode}/${area}`, search: {} as never });
  };
  return (
    <>
      {person.accounts.length === 1 && <div className={classes.account}>{account?.name}</div>}
      {person.accounts.length > 1 && (
        <NativeSelect
          size="xs"
          aria-label={shell.account}
          value={account?.accountId}
          data={person.accounts.map(({ accountId, name }) => ({ value: accountId, label: name }))}
          onChange={({ currentTarget }) => switchAccount(currentTarget.value)}
        />
      )}
      <SegmentedControl
        fullWidth
        aria-label={shell.mode}
        value={mode}
        onChange={(value) => switchMode(value as Mode)}
        data={[
          { value: 'live', label: shell.live },
          { value: 'sandbox', label: shell.sandbox },
        ]}
      />
    </>
  );
}

/** Ends the session. Until the service has confirmed that, the browser still has a valid cookie. */
async function endSession(): Promise<void> {
  try {
    await callerOf().call('signOut');
  } catch (error) {
    const isEnded = error instanceof PostriderError && error.status === 401;
    if (!isEnded) throw error;
  }
}

function PersonMenu({ isOperatorArea }: { isOperatorArea: boolean }) {
  const { person, mode } = useScope();
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  const id = useId();
  const navigate = useNavigate();
  const queries = useQueryClient();
  const signOut = useMutation({
    mutationFn: endSession,
    // Without a connection, it fails now instead of waiting for one.
    networkMode: 'always',
    onSuccess() {
      setPerson(queries, null);
      void navigate({ to: '/sign-in' });
    },
    onError: failed,
  });
  return (
    <div className={classes.foot}>
      {person.isOperator && (
        <Link to={isOperatorArea ? `/app/${mode}` : '/app/operator'} className={classes.link}>
          {isOperatorArea ? <AccountIcon size={16} aria-hidden /> : <OperatorIcon size={16} aria-hidden />}
          {isOperatorArea ? shell.backToAccount : shell.operator}
        </Link>
      )}
      <a href={`${basePath}/docs`} className={classes.link}>
        <IconFileText size={16} stroke={1.7} aria-hidden />
        {shell.documentation}
      </a>
      <button type="button" className={classes.link} popoverTarget={id}>
        <IconUserCircle size={16} stroke={1.7} aria-hidden />
        {person.email}
      </button>
      <div id={id} popover="auto" className={classes.personMenu}>
        <Link to={`/app/${mode}/profile`} className={classes.link}>
          <IconUserCircle size={16} stroke={1.7} aria-hidden />
          {shell.profile}
        </Link>
        <p className={classes.heading}>{shell.zone(ZONE)}</p>
        <p className={classes.heading}>{shell.theme}</p>
        <SegmentedControl
          fullWidth
          aria-label={shell.theme}
          value={colorScheme}
          onChange={(scheme) => setColorScheme(scheme as MantineColorScheme)}
          data={[
            { value: 'light', label: shell.light },
            { value: 'dark', label: shell.dark },
            { value: 'auto', label: shell.auto },
          ]}
        />
        <button type="button" className={classes.link} onClick={() => signOut.mutate()}>
          <IconLogout size={16} stroke={1.7} aria-hidden />
          {shell.signOut}
        </button>
      </div>
    </div>
  );
}
