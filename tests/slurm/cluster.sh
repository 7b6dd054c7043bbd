# Runs a Slurm cluster on 127.0.0.1 for a test. Usage: . tests/slurm/cluster.sh
# 
#     cluster_missing        prints which programs this machine lacks for a cluster, if any
#     cluster_start DIR [N]  starts munged, slurmctld, and a slurmd for each of N nodes
#                            (default 1); sbatch and the other programs then use this
#                            cluster. Returns false on failure; DIR/*.log say why
#     cluster_stop           ends these daemons by their process ids
# 
# The cluster does not use or affect another Slurm installation on this machine.

cluster_missing() {
    local program
    for program in munged slurmctld slurmd sbatch squeue scancel scontrol sinfo setpriv; do
        command -v "$program" >/dev/null ||
            { echo "$program is not installed"; return; }
    done
    [ "$(id -u)" = 0 ] || { echo 'only root can start slurmd and munged'; return; }
    id -u munge >/dev/null 2>&1 || echo 'there is no user munge'
}

cluster_ports() { # N: prints N free ports below the range of ephemeral ports
    python3 - "$1" <<'END'
import random, socket, sys
free = []
while len(free) < int(sys.argv[1]):
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

cluster_write_conf() { # DIR NODE...: the first node has this host's name
    local host=$2 node dir=$1 ports
    shift
    read -ra ports <<<"$(cluster_ports $(($# + 1)))"
    cat >"$dir/slurm.conf" <<END
ClusterName=es
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=${ports[0]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/munge/socket
MessageTimeout=60
TCPTimeout=60
BatchStartTimeout=60
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
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool-%n
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd-%n.pid
SlurmctldLogFile=$dir/slurmctld.log
SlurmdLogFile=$dir/slurmd-%n.log
MailProg=/bin/true
ReturnToService=2
KillWait=5
MinJobAge=300
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE OverSubscribe=FORCE:4
END
    for node; do
        ports=("${ports[@]:1}")
        mkdir "$dir/spool-$node"
        echo "NodeName=$node NodeHostname=$host NodeAddr=127.0.0.1 Port=${ports[0]}" \
            "CPUs=$(nproc) State=UNKNOWN" >>"$dir/slurm.conf"
    done
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

cluster_is_up() { [ "$(sinfo -h -o '%D %t' 2>/dev/null)" = "$1 idle" ]; }

cluster_start() { # DIR [N]
    local node dir=$1 n=${2:-1} i
    node=$(hostname -s)
    set -- "$node"
    for ((i = 2; i <= n; i++)); do
        set -- "$@" "$node-$i"
    done
    chmod 755 "$dir"
    mkdir "$dir/state"
    cluster_write_conf "$dir" "$@"
    export SLURM_CONF=$dir/slurm.conf
    cluster_munged "$dir" || return 1
    slurmctld -D -i >"$dir/slurmctld.out" 2>&1 &
    cluster_pids+=($!)
    for node; do
        slurmd -D -N "$node" >"$dir/slurmd-$node.out" 2>&1 &
        cluster_pids+=($!)
    done
    until_true cluster_is_up $#
}

cluster_stop() {
    local i
    [ ${#cluster_pids[@]} -gt 0 ] || return 0
    scancel --quiet --full --user root >/dev/null 2>&1
    # Stop slurmd first and munged last: a daemon ends cleanly only while the daemons that were
    # started before it still run.
    for ((i = ${#cluster_pids[@]} - 1; i >= 0; i--)); do
        kill "${cluster_pids[i]}" 2>/dev/null
        wait "${cluster_pids[i]}" 2>/dev/null
    done
    cluster_pids=()
}
