# A Slurm of one node on 127.0.0.1, for a test: . tests/slurm/cluster.sh
#
#     cluster_missing    prints what this machine lacks for it, if anything
#     cluster_start DIR  munged, slurmctld and slurmd; false: see DIR/*.log.
#                        From there on sbatch and the like talk to them
#     cluster_stop       by their process ids
#
# Nothing of another Slurm of this machine is read, written or listened on.

cluster_missing() {
    local program
    for program in munged slurmctld slurmd sbatch squeue scancel scontrol sinfo setpriv; do
        command -v "$program" >/dev/null ||
            { echo "$program is not installed"; return; }
    done
    [ "$(id -u)" = 0 ] || { echo 'only root can start slurmd and munged'; return; }
    id -u munge >/dev/null 2>&1 || echo 'there is no user munge'
}

cluster_ports() { # two free ports: below those that connections are given
    python3 - <<'END'
import random, socket
free = []
while len(free) < 2:
    port = random.randrange(20000, 32000)
    with socket.socket() as end:
        try:
            end.bind(("127.0.0.1", port))
        except OSError:
            continue
    if port not in free:
        free.append(port)
print(*free)
END
}

cluster_write_conf() { # DIR CONTROLLER_PORT NODE_PORT
    local node cpus
    node=$(hostname -s)
    cpus=$(nproc)
    cat >"$1/slurm.conf" <<END
ClusterName=es
SlurmctldHost=$node(127.0.0.1)
SlurmctldPort=$2
SlurmdPort=$3
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$1/munge/socket,cred_expire=2
CredType=cred/munge
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/builtin
SchedulerParameters=sched_interval=1,batch_sched_delay=0
SwitchType=switch/none
MpiDefault=none
StateSaveLocation=$1/state
SlurmdSpoolDir=$1/spool
SlurmctldPidFile=$1/slurmctld.pid
SlurmdPidFile=$1/slurmd.pid
SlurmctldLogFile=$1/slurmctld.log
SlurmdLogFile=$1/slurmd.log
MailProg=/bin/true
ReturnToService=2
KillWait=5
MinJobAge=300
NodeName=$node NodeAddr=127.0.0.1 CPUs=$cpus State=UNKNOWN
PartitionName=all Nodes=$node Default=YES MaxTime=INFINITE OverSubscribe=FORCE:4
END
}

cluster_pids=()

cluster_munged() { # DIR
    install -d -m 755 -o munge -g munge "$1/munge"
    head -c 64 /dev/urandom >"$1/munge/key"
    chown munge:munge "$1/munge/key"
    chmod 400 "$1/munge/key"
    setpriv --reuid munge --regid munge --clear-groups munged --foreground --num-threads 2 \
        --key-file "$1/munge/key" --socket "$1/munge/socket" \
        --pid-file "$1/munge/pid" --seed-file "$1/munge/seed" \
        --log-file "$1/munge/log" >"$1/munged.log" 2>&1 &
    cluster_pids+=($!)
    until_true test -S "$1/munge/socket"
}

cluster_is_up() { [ "$(sinfo -h -o %t 2>/dev/null)" = idle ]; }

cluster_start() { # DIR
    chmod 755 "$1"
    mkdir "$1/state" "$1/spool"
    # shellcheck disable=SC2046
    cluster_write_conf "$1" $(cluster_ports)
    export SLURM_CONF=$1/slurm.conf
    cluster_munged "$1" || return 1
    slurmctld -D -i >"$1/slurmctld.out" 2>&1 &
    cluster_pids+=($!)
    slurmd -D >"$1/slurmd.out" 2>&1 &
    cluster_pids+=($!)
    until_true cluster_is_up
}

cluster_stop() {
    local i
    [ ${#cluster_pids[@]} -gt 0 ] || return 0
    scancel --quiet --full --user root >/dev/null 2>&1
    # slurmd first, munged last: each needs the ones before it to go in peace
    for ((i = ${#cluster_pids[@]} - 1; i >= 0; i--)); do
        kill "${cluster_pids[i]}" 2>/dev/null
        wait "${cluster_pids[i]}" 2>/dev/null
    done
    cluster_pids=()
}
