'use strict';

// Requests to the server of a live page, and its events. One tab of a browser
// reads the events and passes them to the other tabs, because a browser opens
// few connections to one server. A report makes no requests.
const Server = (() => {
    const QUIET = 25000;               // milliseconds without a sign of the server
    const WAIT = {least: 500, most: 5000}; // before the next attempt to connect
    const NAME = 'entropy-scan ' + location.pathname;
    const token = Data.about.live ? takeToken() : null;
    let heard = performance.now();

    // A frame of a notebook gets the token in its address, since a browser
    // sends no cookie from there.
    function takeToken() {
        const url = new URL(location.href), found = url.searchParams.get('embed');
        if (found) {
            url.searchParams.delete('embed');
            history.replaceState(null, '', url);
        }
        return found;
    }

    const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

    async function reason(response) {
        try {
            return (await response.json()).error || '';
        } catch (error) {
            return '';
        }
    }

    // Requests an address below the page. parameters: pairs [name, value]. The
    // error of an answer that is not a success has its status.
    async function get(path, parameters = [], options = {}) {
        const query = new URLSearchParams(parameters).toString();
        for (let attempt = 0;; attempt++) {
            const response = await fetch(query ? `${path}?${query}` : path,
                Object.assign({headers: token
                    ? {Authorization: `Bearer ${token}`} : {}}, options));
            if (response.ok)
                return response;
            if (response.status === 503 && attempt < 5)
                await pause(1000);
            else
                throw Object.assign(new Error(await reason(response) ||
                    `status ${response.status}`), {status: response.status});
        }
    }

    /* --- events ----------------------------------------------------------*/

    // Splits a stream of server-sent events; calls hear(name, data) for each.
    function parser(hear) {
        let rest = '';
        return (text) => {
            const blocks = (rest + text).split('\n\n');
            rest = blocks.pop();
            for (const block of blocks) {
                const members = Object.fromEntries(block.split('\n')
                    .map((line) => line.match(/^(event|data): ?(.*)$/))
                    .filter(Boolean).map(([, name, value]) => [name, value]));
                hear(members.event || 'beat', members.data
                    ? JSON.parse(members.data) : null);
            }
        };
    }

    // Reads events until the stream ends or the server is silent.
    async function read(hear, outer) {
        const own = new AbortController();
        const end = () => own.abort();
        let timer = setTimeout(end, QUIET);
        outer?.addEventListener('abort', end);
        try {
            const response = await get('api/events', [], {
                signal: own.signal, cache: 'no-store'});
            const reader = response.body.getReader();
            const decoder = new TextDecoder(), take = parser(hear);
            hear('open', null);
            for (;;) {
                const {done, value} = await reader.read();
                if (done)
                    return;
                clearTimeout(timer);
                timer = setTimeout(end, QUIET);
                take(decoder.decode(value, {stream: true}));
            }
        } finally {
            clearTimeout(timer);
            outer?.removeEventListener('abort', end);
        }
    }

    // Reads events for ever. Each loss of the connection is the event "away",
    // with the status of the answer if there was one.
    async function follow(hear, outer) {
        let wait = WAIT.least;
        while (!outer?.aborted) {
            let status = null;
            try {
                await read((name, data) => {
                    wait = WAIT.least;
                    hear(name, data);
                }, outer);
            } catch (error) {
                status = error.status || null;
            }
            if (outer?.aborted)
                return;
            hear('away', {status});
            await pause(wait);
            wait = Math.min(WAIT.most, 2 * wait);
        }
    }

    // Without locks, a tab reads the events while it is visible.
    function followVisible(hear) {
        let stop = null;
        const change = () => {
            stop?.abort();
            stop = document.hidden ? null : new AbortController();
            if (stop)
                follow(hear, stop.signal);
        };
        document.addEventListener('visibilitychange', change);
        change();
    }

    /**
     * Calls hear(name, data) for each event of the server ("runs", "alert"), for
     * "open" and "away" when the connection begins and ends, and for "quiet" if
     * nothing was heard for long, so that the page looks for itself.
     */
    function listen(hear) {
        const note = (name, data) => {
            heard = performance.now();
            hear(name, data);
        };
        const channel = window.BroadcastChannel && navigator.locks
            ? new BroadcastChannel(NAME) : null;
        setInterval(() => {
            if (performance.now() - heard > QUIET && !document.hidden)
                hear('quiet', null);
        }, QUIET / 2);
        if (!channel) {
            followVisible(note);
            return;
        }
        channel.onmessage = ({data}) => note(data.name, data.data);
        navigator.locks.request(NAME, () => follow((name, data) => {
            channel.postMessage({name, data});
            note(name, data);
        }));
    }

    return {get, listen};
})();
